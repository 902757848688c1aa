"""Statements as text, for what neither the ORM nor `bulk` can say, and the database's clock.

Raw SQL lies in the modules that tests/rawsql.py lists; each says why. Here: the ORM does not ask for the clock
alone, and has no words for Postgres's locks, transaction settings and snapshots.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection

# The database's clock as Django's Now() writes it; %% because it stands in statements with parameters.
_CLOCK = {"sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')", "postgresql": "CLOCK_TIMESTAMP()"}
# The cluster's, as last observed.
CLUSTER_CLOCK = '(SELECT "c"."now" FROM "controlplane_clusterstate" "c" ORDER BY "c"."id" LIMIT 1)'


def execute(statement: str, values: Sequence[Any] | None = None) -> int:
    """Run one statement; tell how many rows it touched. Values are as the database stores them."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def rows(statement: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """The rows that a statement gives."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def database_clock() -> str:
    """The database's clock as an SQL expression, in a statement with parameters."""
    return _CLOCK[connection.vendor]


def read_clock() -> Any:
    """The database's clock, as the database gives it."""
    ((value,),) = rows("SELECT " + database_clock().replace("%%", "%"))
    return value


# --- Postgres alone ---------------------------------------------------------------------------


def take_turns(key: int, *, shared: bool = False) -> None:
    """Wait for all transactions that have called this with the same key; SQLite has one writer at a time anyway.

    Those that are `shared` wait only for one that is not, and it for them.
    """
    if connection.vendor == "postgresql":
        function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        execute(f"SELECT {function}(%s)", [key])


def without_waiting() -> None:
    """Let the transaction end without waiting for the disk: what is lost is done again."""
    if connection.vendor == "postgresql":
        execute("SET LOCAL synchronous_commit TO off")


def read_one_moment() -> None:
    """Have every statement of the transaction, which has just begun, see the same moment, and none write."""
    execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def transactions() -> tuple[int, int]:
    """(the oldest transaction that still runs, the next one to be given a number)."""
    ((oldest_running, following),) = rows(
        "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint FROM pg_current_snapshot() s"
    )
    return int(oldest_running), int(following)
