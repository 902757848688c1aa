"""Many rows in one statement: what the ORM's bulk_create and bulk_update do, at a tenth of their time per row.

The loops replay tens of thousands of jobs through these. Values go through the fields' own preparation, so that
JSON, UUIDs and booleans are stored as the ORM stores them on either database.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from django.db import connection, models

CHUNK = 900  # values in one IN list; SQLite allows 999 where it was built with its old default


def insert(model: type[models.Model], names: tuple[str, ...], rows: Sequence[Sequence[Any]], **sql: str) -> None:
    """Insert rows of values for `names`; `sql` gives columns that get an SQL expression instead."""
    if not rows:
        return
    fields = _fields(model, names)
    columns = ", ".join([f'"{field.column}"' for field in fields] + [f'"{name}"' for name in sql])
    values = ", ".join(["%s"] * len(fields) + list(sql.values()))
    _execute(f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({values})', fields, rows)  # noqa: S608


def update(
    model: type[models.Model], names: tuple[str, ...], keys: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> int:
    """Set `names` in the row that `keys` find, for each row of (names' values, keys' values); tell how many matched."""
    if not rows:
        return 0
    fields = _fields(model, names + keys)
    assigned = ", ".join(f'"{field.column}" = %s' for field in fields[: len(names)])
    found = " AND ".join(f'"{field.column}" = %s' for field in fields[len(names) :])
    return _execute(f'UPDATE "{model._meta.db_table}" SET {assigned} WHERE {found}', fields, rows)  # noqa: S608


def chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """The values in lists short enough for one IN."""
    every = list(values)
    for start in range(0, len(every), CHUNK):
        yield every[start : start + CHUNK]


@lru_cache(maxsize=256)
def _fields(model: type[models.Model], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(model._meta.get_field(name) for name in names)


def _execute(statement: str, fields: tuple[Any, ...], rows: Sequence[Sequence[Any]]) -> int:
    prepare = [field.get_db_prep_save for field in fields]
    values = [tuple(p(value, connection) for p, value in zip(prepare, row, strict=True)) for row in rows]
    with connection.cursor() as cursor:
        if len(values) == 1:
            cursor.execute(statement, values[0])
        else:
            cursor.executemany(statement, values)
        return int(cursor.rowcount)
