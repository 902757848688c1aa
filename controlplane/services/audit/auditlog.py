"""The audit log: each row carries the SHA-256 of itself and of the row before, so that no row can be changed unseen.

Rows are written one by one, each in a statement of its own that holds only if the row before is still the newest:
two processes that write at once are told apart by the primary key, and the later one tries again. The newest number
and digest (the head) are written to the logs as well; kept elsewhere, they show if the end of the table was cut off.

Raw SQL: a row is inserted only if the one before is still the newest, and while the minute has room for it.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import connection
from django.utils import timezone

from controlplane.models import AuditEntry, Outcome, bulk, statements
from controlplane.security.auditchain import COLUMNS, FIRST, digest_of
from controlplane.security.secretless import without_tokens
from controlplane.services.audit.events import Entry

MAX_EVENTS = 20  # of one request; a batch has hundreds, and its number is told
MAX_TEXT = 200  # characters of a value
MAX_TRIES = 50  # so many writers at once there never are
MAX_OF_STRANGERS, LOOKED_AT = 59, 200  # rows a minute, with the one that sums up 60; newest rows that are counted
MINUTE = timedelta(seconds=60)
HEAD_SECONDS = 60.0  # between two heads in a process's log
SECRET = ("secret", "password", "token", "digest", "credential", "private")
HIDDEN = "[hidden]"
SUMMED = "StrangersSummed"  # kind of the row that stands for those that were left out
# Of events that say so: pages answer 200 with their form, and nobody is signed in to be named.
FAILED_TO_SIGN_IN = frozenset({"LoginFailed", "SecondStepFailed", "ReauthenticationFailed"})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the log has it: who, from where, what, and the HTTP status it got."""

    actor: str
    token: str
    address: str
    method: str
    route: str
    path: str
    status: int
    team: str = ""  # where no event says which
    subject: str = ""  # what it is about, where no event says so


@dataclass(slots=True)
class _Head:
    """The newest row as this process knows it; another process may have written since."""

    number: int = 0
    digest: str = FIRST
    told_at: float = 0.0  # monotonic clock


_head = _Head()
_lock = threading.Lock()  # threads of this process take turns, instead of each other's place


def record(asked: Asked, events: Sequence[Entry] = ()) -> int:
    """Add a row about a request and the events it wrote; its number, 0 if it is a stranger's and there is no room.

    Raises DatabaseError.
    """
    most = MAX_OF_STRANGERS if is_of_stranger(asked, events) else None
    found = outcome(asked.status)
    told = events if found == Outcome.DONE else ()  # what failed was rolled back
    failed = next((event for event in events if event.kind in FAILED_TO_SIGN_IN), None)
    if failed:
        asked, found, told = replace(asked, actor=failed.actor), Outcome.DENIED, (failed,)
    teams = {event.team for event in told if event.team}
    first = told[0] if told else None
    values = (
        _line(asked.actor, 150), _line(asked.token, 12), _line(asked.address, 45), _line(asked.method, 8),
        _line(asked.route, 200), _line(without_tokens(asked.path), 300),
        asked.status, found.value, first.kind if first else "",
        asked.team[:40] if not teams else teams.pop() if len(teams) == 1 else "",
        (_subject(first) if first else asked.subject)[:150], json.dumps(changes(told)),
    )  # fmt: skip
    with _lock:
        return _append(values, most)


def sum_up(rows: int) -> int:
    """Add one row in the place of so many that strangers would have left (strangerrows.py); 0: no room."""
    changed = json.dumps([{"kind": SUMMED, "data": {"rows": rows}}])
    with _lock:
        return _append(
            ("", "", "", "", "", "", 401, Outcome.DENIED.value, SUMMED, "", "", changed), MAX_OF_STRANGERS + 1
        )


def is_of_stranger(asked: Asked, events: Sequence[Entry]) -> bool:
    """Whether the request was made without a sign-in, and did not sign anybody in."""
    failed = any(event.kind in FAILED_TO_SIGN_IN for event in events)
    return not asked.actor and (failed or outcome(asked.status) != Outcome.DONE)


def outcome(status: int) -> Outcome:
    """What an HTTP status means for who asked."""
    if status < 400:
        return Outcome.DONE
    if status in (401, 403):
        return Outcome.DENIED
    return Outcome.REFUSED if status < 500 else Outcome.FAILED


def changes(events: Sequence[Entry]) -> list[dict[str, Any]]:
    """Events as the log has them: shortened, and without what must stay secret."""
    found = [_change(event) for event in events[:MAX_EVENTS]]
    if len(events) > MAX_EVENTS:
        found.append({"and_more": len(events) - MAX_EVENTS})
    return found


def _append(values: Sequence[Any], most: int | None = None) -> int:
    for _ in range(MAX_TRIES):
        at: datetime = timezone.now()
        number = _head.number + 1
        row = (number, at, *values)
        digest = digest_of(_head.digest, row)
        if _insert(row, digest, most):
            _head.number, _head.digest = number, digest
            _tell()
            return number
        if most is not None and _is_full(at, most):
            return 0
        _read_head()
    raise RuntimeError("The audit log's end could not be reached.")


def _insert(row: Sequence[Any], digest: str, most: int | None) -> bool:
    """Whether the row stands now behind the one it was made for; not where strangers have left `most` in a minute."""
    table = AuditEntry._meta.db_table
    columns = ", ".join(f'"{name}"' for name in (*COLUMNS, "digest"))
    statement = (
        f'INSERT INTO "{table}" ({columns}) SELECT {", ".join(["%s"] * (len(row) + 1))} '  # noqa: S608
        f'WHERE (EXISTS (SELECT 1 FROM "{table}" WHERE "number" = %s AND "digest" = %s) '
        # Row 1 may have been pruned: only where there is nothing at all is there nothing to follow.
        f'OR (%s = 1 AND NOT EXISTS (SELECT 1 FROM "{table}"))) '
        f"{'' if most is None else f'AND {_OF_STRANGERS} < %s '}"
        'ON CONFLICT ("number") DO NOTHING'
    )
    number, at, *rest = row
    moment = AuditEntry._meta.get_field("at").get_db_prep_save(at, connection)
    given = (number, moment, *rest, digest, number - 1, _head.digest, number)
    return bool(statements.execute(statement, given if most is None else (*given, *_minute(at), most)))


_TABLE = AuditEntry._meta.db_table
_FAILED = ", ".join(f"'{kind}'" for kind in sorted(FAILED_TO_SIGN_IN))
# Rows of strangers since a moment: those without an account, by their index, and failed sign-ins among the newest.
_OF_STRANGERS = f"""(
    (SELECT count(*) FROM (
        SELECT "at" FROM "{_TABLE}" WHERE "actor" = '' ORDER BY "number" DESC LIMIT {MAX_OF_STRANGERS + 1}
    ) "nobodys" WHERE "at" > %s)
    + (SELECT count(*) FROM (
        SELECT "at", "actor", "kind" FROM "{_TABLE}" ORDER BY "number" DESC LIMIT {LOOKED_AT}
    ) "newest" WHERE "at" > %s AND "actor" <> '' AND "kind" IN ({_FAILED}))
)"""  # noqa: S608 - constants


def _is_full(at: datetime, most: int) -> bool:
    ((count,),) = statements.rows(f"SELECT {_OF_STRANGERS}", _minute(at))
    return bool(count >= most)


def _minute(at: datetime) -> list[Any]:
    """The moment a minute ago, once for each part of _OF_STRANGERS."""
    since = at - MINUTE
    return bulk.stored(AuditEntry, "at", (since, since))


def _read_head() -> None:
    found = bulk.select(AuditEntry, ("number", "digest"), order=("-number",), limit=1)
    _head.number, _head.digest = found[0] if found else (0, FIRST)


def _tell() -> None:
    """Write the head to the log, but not at every row."""
    now = time.monotonic()
    if now - _head.told_at >= HEAD_SECONDS:
        _head.told_at = now
        log.info("audit log head", number=_head.number, digest=_head.digest)


def _line(text: str, most: int) -> str:
    """Text that fits its column, without anything that cannot be printed: NUL is no text to Postgres."""
    shown = text[:most]
    return shown if shown.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in shown)


def _subject(event: Entry) -> str:
    """What an event is about, in a word."""
    return event.name or str(event.data.get("user") or event.data.get("node") or event.workload or "")


def _change(event: Entry) -> dict[str, Any]:
    columns = {
        "kind": event.kind,
        "team": event.team,
        "workload": str(event.workload) if event.workload else "",
        "name": event.name,
        "phase": event.phase,
        "message": event.message,
        "data": redacted(event.data),
    }
    return {name: value for name, value in columns.items() if value}


def redacted(value: Any, name: str = "") -> Any:
    """A value without secrets, and of a size that a log can keep."""
    if isinstance(value, Mapping):
        return {str(key): redacted(one, str(key)) for key, one in list(value.items())[:MAX_EVENTS]}
    if isinstance(value, list | tuple):
        return [redacted(one, name) for one in value[:MAX_EVENTS]]
    if isinstance(value, bool) or value is None:
        return value
    if any(word in name.casefold() for word in SECRET):
        return HIDDEN
    if isinstance(value, int | float):
        return value
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
