"""The audit log to read, and the check of its chain."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from controlplane import csvfile
from controlplane.auditchain import COLUMNS, FIRST, digest_of
from controlplane.models import AuditEntry, Outcome
from controlplane.quantities import iso
from controlplane.queries import access

AT_ONCE = 2_000  # rows
MOST_ROWS = 50_000  # of one CSV
OUTCOMES: tuple[str, ...] = tuple(Outcome.values)
SHOWN = (*COLUMNS, "digest")


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows; "" and None leave a column open. Moments are seconds since 1970."""

    team: str = ""
    actor: str = ""
    outcome: str = ""
    kind: str = ""
    since: float | None = None
    until: float | None = None


def entries(user: access.Person, filters: Filters | None = None) -> QuerySet[AuditEntry]:
    """The rows that the user may see, newest first: a platform admin all of them, a team admin those of the team."""
    found = AuditEntry.objects.order_by("-number")
    if not access.is_platform_admin(user):
        found = found.filter(team__in=access.team_names(user, access.Verb.MANAGE))
    wanted = filters or Filters()
    for column in ("team", "actor", "outcome", "kind"):
        value = getattr(wanted, column)
        if value:
            found = found.filter(**{column: value})
    if wanted.since is not None:
        found = found.filter(at__gte=datetime.fromtimestamp(wanted.since, UTC))
    if wanted.until is not None:
        found = found.filter(at__lt=datetime.fromtimestamp(wanted.until, UTC))
    return found


def may_read(user: access.Person) -> bool:
    """Whether there is anything for the user: an admin of the platform or of a team."""
    return access.is_platform_admin(user) or bool(access.team_names(user, access.Verb.MANAGE))


def row(entry: AuditEntry) -> dict[str, Any]:
    """One row as it is shown; `changes` are the events that the request wrote."""
    shown = {name: getattr(entry, name) for name in SHOWN}
    return shown | {"at": iso(entry.at.timestamp()), "changes": json.loads(entry.changes)}


def as_csv(found: Iterable[AuditEntry]) -> str:
    """Rows as CSV with a header; what a spreadsheet would take for a formula begins with an apostrophe."""
    return csvfile.table(SHOWN, ([_cell(entry, name) for name in SHOWN] for entry in found))


def _cell(entry: AuditEntry, name: str) -> Any:
    return entry.at.astimezone(UTC).isoformat(timespec="microseconds") if name == "at" else getattr(entry, name)


# --- the chain --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found: how many rows are right, the head, and the first that is wrong ("" where none is)."""

    rows: int
    number: int
    digest: str
    fault: str = ""


def check(anchors: Sequence[tuple[int, str]] = ()) -> Checked:
    """Go through the chain from its first row; anchors are heads (number, digest) kept elsewhere, as in the logs."""
    wanted = dict(anchors)
    number, digest = 0, FIRST
    while True:
        found = list(AuditEntry.objects.filter(number__gt=number).order_by("number").values_list(*SHOWN)[:AT_ONCE])
        for values in found:
            fault = _fault(values, number, digest, wanted)
            if fault:
                return Checked(number, number, digest, fault)
            number, digest = values[0], values[-1]
        if len(found) < AT_ONCE:
            break
    beyond = min((one for one in wanted if one > number), default=None)
    if beyond is not None:
        return Checked(number, number, digest, f"row {beyond}: it is missing; the log ends with row {number}")
    return Checked(number, number, digest)


def _fault(values: Sequence[Any], number: int, digest: str, wanted: dict[int, str]) -> str:
    """What is wrong with the row after `number`, as a sentence's end."""
    if values[0] != number + 1:
        return f"row {number + 1}: it is missing; row {values[0]} follows row {number}"
    if values[-1] != digest_of(digest, values[:-1]):
        return f"row {values[0]}: it is not what was written, or not after what was written"
    if wanted.get(values[0], values[-1]) != values[-1]:
        return f"row {values[0]}: the log says {values[-1]}, but {wanted[values[0]]} was kept elsewhere"
    return ""
