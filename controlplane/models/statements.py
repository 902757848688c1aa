"""Statements as text, for what neither the ORM nor `bulk` can say. With those two, the only door to a cursor.

Raw SQL is needed for: an upsert with a condition or a sum (ON CONFLICT ... DO UPDATE ... WHERE), a row that is inserted
only if another is still the newest, Postgres's advisory locks, transaction settings and snapshots, and the database's
clock. tests/test_raw_sql.py lists the modules that hold SQL text; each says why.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection


def execute(statement: str, values: Sequence[Any] | None = None) -> int:
    """Run one statement; tell how many rows it touched. Values are as the database stores them."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def execute_many(statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run one statement for each of the rows."""
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def rows(statement: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """The rows that a statement gives."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
