"""`column is one of these values` with one parameter, however many values there are.

A list of marks, `IN (%s, %s, ...)`, grows with the values: Postgres refuses a statement of more than 65,535 parameters,
SQLite one of more than 32,766 (999 in old builds), and each length is another statement to compile. So a list that
depends on data is one array for Postgres and one JSON text for SQLite: `filter(pk__among=uids)` in query sets,
`{"pk__among": uids}` in plain statements (lookups.py). `__in` is for lists that are written in the code.
"""

import json
from collections.abc import Iterable
from typing import Any

from django.db import models
from django.db.models.lookups import Lookup

Condition = tuple[str, list[Any]]  # SQL, and its parameters: always one


def column_type(field: Any, connection: Any) -> str:
    """The type to compare and assign with; without a length, which a cast would cut off silently."""
    name = str(field.db_type(connection))
    return "text" if name.startswith("varchar") else name


def condition(column: str, field: Any, values: Iterable[Any], connection: Any) -> Condition:
    """`column`, an SQL expression, is one of these values of a field."""
    return among_sql(column, field, connection), [among_value(field, values, connection)]


def among_sql(column: str, field: Any, connection: Any) -> str:
    """The condition alone, with the mark of its parameter."""
    if connection.vendor == "postgresql":
        return f"{column} = ANY(%s::{column_type(field, connection)}[])"
    return f'{column} IN (SELECT "value" FROM json_each(%s))'  # noqa: S608 - a column


def among_value(field: Any, values: Iterable[Any], connection: Any) -> Any:
    """Its parameter: all the values."""
    prepare = field.get_db_prep_save
    stored = [prepare(value, connection) for value in values]
    return stored if connection.vendor == "postgresql" else json.dumps(stored)


@models.ForeignObject.register_lookup  # which does not inherit the lookups of fields
@models.Field.register_lookup
class Among(Lookup):
    """`filter(name__among=values)`: as `__in` with a list of values, and one parameter."""

    lookup_name = "among"

    def get_prep_lookup(self) -> list[Any]:
        """The values as they are; the field prepares them when the statement is made."""
        return list(self.rhs)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        """The condition, and its parameters."""
        column, before = self.process_lhs(compiler, connection)
        sql, values = condition(column, self.lhs.output_field, self.rhs, connection)
        return sql, [*before, *values]
