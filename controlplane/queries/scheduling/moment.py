"""Reading one moment of the database with several statements, while others write.

Raw SQL: the ORM sets no transaction's isolation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from controlplane.models.statements import read_one_moment


@contextmanager
def one_moment() -> Iterator[None]:
    """Have every statement inside see the same moment of the database; none of them may write.

    What only reads must not take the lock for writing: SQLite has one for the whole database, and our transactions ask
    for it as they begin. Inside a transaction that is open already this adds nothing.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "postgresql":
        with transaction.atomic():
            read_one_moment()
            yield
    else:
        with _without_lock(connection), transaction.atomic():
            yield


@contextmanager
def _without_lock(sqlite: Any) -> Iterator[None]:
    """Have transactions begin without the lock; one that were to write would fail half-way, so none can."""
    sqlite.ensure_connection()
    mode, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
    opened = sqlite.connection
    opened.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        sqlite.transaction_mode = mode
        opened.execute("PRAGMA query_only = OFF")
