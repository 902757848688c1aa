"""What strangers would have left in the audit log beyond their rows a minute: counted here, and summed in one row.

Whether there is room for a row is looked up by the statement that writes it (services/audit/auditlog.py), over the rows
of all processes. Where there was none this process asks no more for a minute, so that a flood costs no statements. Then
it adds what it counted to what others did, and writes the sum.
"""

import threading
import time
from datetime import timedelta

from django.db import transaction

from controlplane.models import SignInFailures, bulk
from controlplane.services.scheduling.clock import database_now

CLOSED_SECONDS = 60.0
LEFT_OUT, FOR_LONG = "audit log: rows left out", timedelta(days=365)

_lock = threading.Lock()
_closed_until = 0.0  # monotonic clock; until then this process asks nothing
_left = 0  # rows that this process has left out since it last told the database


def is_closed() -> bool:
    """Whether rows of strangers are left out now; then this one is counted."""
    global _left
    with _lock:
        if time.monotonic() >= _closed_until:
            return False
        _left += 1
        return True


def close() -> None:
    """There was no room for a row."""
    global _closed_until, _left
    with _lock:
        _left += 1
        _closed_until = time.monotonic() + CLOSED_SECONDS


def to_sum_up() -> int:
    """How many rows were left out, to be written as one; 0 before the minute is over. They are forgotten by that."""
    global _left
    with _lock:
        if not _left or time.monotonic() < _closed_until:
            return 0
        left, _left = _left, 0
    with transaction.atomic():
        _add(left)
        count = SignInFailures.objects.values_list("count", flat=True).get(key=LEFT_OUT)
        return count if SignInFailures.objects.filter(key=LEFT_OUT).delete()[0] else 0


def put_back(rows: int) -> None:
    """The sum could not be written: later."""
    global _left
    with _lock:
        _left += rows


def forget() -> None:
    """Forget what this process remembers: for tests."""
    global _closed_until, _left
    _closed_until, _left = 0.0, 0


def _add(number: int) -> None:
    row = (LEFT_OUT, number, database_now() + FOR_LONG)
    bulk.insert(SignInFailures, ("key", "count", "until"), [row], added=(("key",), ("count",)))
