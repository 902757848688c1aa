"""How many rows of the audit log strangers may cause: so many a minute in all processes, however many addresses.

The count stands in the database, beside that of failed sign-ins. What is over it is counted, by this process alone
while the minute lasts, so that a flood costs no statements; the sum becomes one row later, by whichever process is
first.
"""

import threading
import time
from datetime import datetime, timedelta

from django.db import connection, transaction

from controlplane.models import SignInFailures, bulk
from controlplane.services.clock import database_now

MOST = 59  # rows a minute; with the row that sums up the rest 60
MINUTE, FOR_LONG = timedelta(seconds=60), timedelta(days=365)
WRITTEN, LEFT_OUT = "audit log: rows of strangers", "audit log: rows left out"

_lock = threading.Lock()
_closed_until = 0.0  # monotonic clock; until then this process asks nothing
_left = 0  # rows that this process has left out since it last told the database


def is_room() -> bool:
    """Whether a stranger's row may be written now; if not, it is counted."""
    global _closed_until, _left
    with _lock:
        if time.monotonic() < _closed_until:
            _left += 1
            return False
    count, seconds = _counted()
    if count <= MOST:
        return True
    with _lock:
        _left += 1
        _closed_until = time.monotonic() + seconds
    return False


def to_sum_up() -> int:
    """How many rows were left out, to be written as one; 0 before the minute is over. They are forgotten by that."""
    global _left
    with _lock:
        if not _left or time.monotonic() < _closed_until:
            return 0
        left, _left = _left, 0
    with transaction.atomic():
        _add(LEFT_OUT, left, FOR_LONG)
        if _counted()[0] > MOST + 1:  # the row that sums up is one of this minute
            return 0
        found = SignInFailures.objects.filter(key=LEFT_OUT).values_list("count", flat=True).get()
        return found if SignInFailures.objects.filter(key=LEFT_OUT, count=found).delete()[0] else 0


def forget() -> None:
    """Forget what this process remembers: for tests."""
    global _closed_until, _left
    _closed_until, _left = 0.0, 0


def _counted() -> tuple[int, float]:
    """One more in this minute: which it is, and the seconds that the minute still lasts."""
    now = database_now()
    count, until = _add(WRITTEN, 1, MINUTE)
    return count, max(0.0, (until - now).total_seconds())


def _add(key: str, number: int, lasts: timedelta) -> tuple[int, datetime]:
    """Add to a count that begins again when its time is over; the count, and until when it lasts."""
    table, now = SignInFailures._meta.db_table, database_now()
    until, moment = bulk.stored(SignInFailures, "until", (now + lasts, now))
    with connection.cursor() as cursor:
        cursor.execute(
            f'INSERT INTO "{table}" ("key", "count", "until") VALUES (%s, %s, %s) '  # noqa: S608
            'ON CONFLICT ("key") DO UPDATE SET '
            f'"count" = CASE WHEN "{table}"."until" <= %s THEN excluded."count" '
            f'ELSE "{table}"."count" + excluded."count" END, '
            f'"until" = CASE WHEN "{table}"."until" <= %s THEN excluded."until" ELSE "{table}"."until" END',
            (key, number, until, moment, moment),
        )
    row = SignInFailures.objects.get(key=key)
    return row.count, row.until
