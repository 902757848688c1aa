"""Conditions as values, by the names of the ORM's lookups: `{"phase__in": WAITING, "seq__gt": 7}`; all of them hold.

Raw SQL: `bulk` and `loading` run what is composed here, once for each shape of a condition; the ORM composes each
query anew, which takes several times as long as the database's answer. All other modules say what they look for.

Endings: none (equal), `not`, `gt`, `gte`, `lt`, `lte`, `isnull`, `in` and `not_in` (members of our enums only), `among`
(all other lists, as one parameter). Members of our enums are written into the statement, as are NOW and truth values:
a prepared statement uses a partial index only where its text says that the index has the rows. All else is a parameter.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from django.db import connection, models

from controlplane.models.among import among_sql, among_value
from controlplane.models.statements import database_clock

Where = Mapping[str, Any]
Composed = tuple[str, list[Any]]  # all that follows a table's name in a statement, and its parameters
NOTHING: Final[Where] = {}
PLAIN = (models.CharField, models.IntegerField, models.FloatField, models.BooleanField)  # stored as they are

_COMPARED = {"": "=", "not": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LISTED = {"in": "IN", "not_in": "NOT IN"}
_ENDINGS = (*_COMPARED, *_LISTED, "among", "isnull")


class _Now:
    """The database's clock, as a value to compare with."""


NOW: Final = _Now()
_PARAMETER: Final = object()  # in a shape: the value is not written into the statement


def composed(
    model: type[models.Model],
    where: Where,
    order: Sequence[str] = (),
    limit: int | None = None,
    *,
    locks: bool = False,
    table: str = "",
) -> Composed:
    """The end of a statement over the model's table. order: columns, "-" for descending; table: its alias, if any.

    locks: keep others from writing the rows that are read until the transaction ends.
    """
    shape = tuple((lookup, _written(lookup, value)) for lookup, value in where.items())
    text, parameters = _text(model, shape, tuple(order), limit, locks, table, connection.vendor)
    values: list[Any] = []
    for lookup, field, ending in parameters:
        value = where[lookup]
        values.append(among_value(field, value, connection) if ending == "among" else prepared(field, value))
    return text, values


def prepared(field: Any, value: Any) -> Any:
    """A value of a field as the database stores it."""
    target = field.target_field if field.is_relation else field
    return value if isinstance(target, PLAIN) else field.get_db_prep_save(value, connection)


def for_update() -> str:
    """The clause that keeps others from writing the rows read; SQLite has one writer at a time anyway."""
    return "FOR NO KEY UPDATE" if connection.features.has_select_for_update else ""


def split(lookup: str) -> tuple[str, str]:
    """The name of a field and the ending of a lookup, which is empty for "is equal"."""
    name, separator, ending = lookup.rpartition("__")
    if not separator:
        return lookup, ""
    if ending not in _ENDINGS:
        raise ValueError(f"There is no lookup {lookup}. Endings are: {', '.join(filter(None, _ENDINGS))}.")
    return name, ending


def _written(lookup: str, value: Any) -> Any:
    """What of a value is part of the statement: two values with the same have the same statement."""
    if isinstance(value, Enum | bool) or value is NOW:
        return value
    if value is None:
        raise ValueError(f"{lookup} is None. Use {lookup.rpartition('__')[0] or lookup}__isnull.")
    return tuple(sorted(value)) if lookup.endswith(("__in", "__not_in")) else _PARAMETER


Parameter = tuple[str, Any, str]  # the lookup, its field and its ending


@lru_cache(maxsize=512)
def _text(
    model: type[models.Model],
    shape: tuple[tuple[str, Any], ...],
    order: tuple[str, ...],
    limit: int | None,
    locks: bool,
    table: str,
    vendor: str,  # noqa: ARG001 - a statement of one database is not another's
) -> tuple[str, tuple[Parameter, ...]]:
    conditions: list[str] = []
    parameters: list[Parameter] = []
    for lookup, written in shape:
        name, ending = split(lookup)
        field: Any = model._meta.get_field(name)
        conditions.append(_condition(_column(field, table), field, ending, written))
        if written is _PARAMETER:
            parameters.append((lookup, field, ending))
    parts = [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    if order:
        parts.append(f"ORDER BY {', '.join(_ordered(model, name, table) for name in order)}")
    parts += [] if limit is None else [f"LIMIT {limit}"]
    parts += [for_update()] if locks else []
    return " ".join(parts), tuple(parameters)


def _condition(column: str, field: Any, ending: str, written: Any) -> str:
    if ending == "isnull":
        return f"{column} IS NULL" if written else f"{column} IS NOT NULL"
    if ending == "among":
        return among_sql(column, field, connection)
    if ending in _LISTED:
        return f"{column} {_LISTED[ending]} ({', '.join(map(_literal, written))})"
    if isinstance(written, bool) and ending == "":
        return column if written else f"NOT {column}"
    return f"{column} {_COMPARED[ending]} {'%s' if written is _PARAMETER else _literal(written)}"


def _literal(value: Any) -> str:
    if value is NOW:
        return database_clock()
    if not isinstance(value, Enum) or not str(value.value).isalnum():
        raise ValueError(f"{value!r} cannot be written into a statement.")
    return f"'{value.value}'"


def _column(field: Any, table: str) -> str:
    return f'"{table}"."{field.column}"' if table else f'"{field.column}"'


def _ordered(model: type[models.Model], name: str, table: str) -> str:
    """Named with its table: another one that is read may have a column of the same name, which Postgres refuses."""
    column = _column(model._meta.get_field(name.removeprefix("-")), table or model._meta.db_table)
    return f"{column} DESC" if name.startswith("-") else column
