"""The audit log to read, and the check of its chain."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from controlplane.domain import csvfile
from controlplane.jobspec.quantities import iso
from controlplane.models import AuditAnchor, AuditEntry, Outcome
from controlplane.queries.accounts import access
from controlplane.security.auditchain import COLUMNS, FIRST, anchor_chain, fault

AT_ONCE = 2_000  # rows
MAX_ROWS = 50_000  # of one CSV
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
    """What a check found: how many rows are right, the head, and the first that is wrong ("" where none is).

    pruned: the number of the last row that retention deleted; 0 where none was.
    """

    rows: int
    number: int
    digest: str
    fault: str = ""
    pruned: int = 0


def check(kept: Sequence[tuple[int, str]] = ()) -> Checked:
    """Go through the chain, from its first row or the newest anchor; `kept` are heads (number, digest) of the logs."""
    wanted = dict(kept)
    begin, digest, wrong = _begin(wanted)
    if wrong:
        return Checked(0, begin, digest, wrong, begin)
    number = begin
    while True:
        found = list(AuditEntry.objects.filter(number__gt=number).order_by("number").values_list(*SHOWN)[:AT_ONCE])
        for values in found:
            wrong = fault(values, number, digest) or _other(values[0], values[-1], wanted)
            if wrong:
                return Checked(number - begin, number, digest, wrong, begin)
            number, digest = values[0], values[-1]
        if len(found) < AT_ONCE:
            break
    if begin and number == begin:
        return Checked(0, begin, digest, f"row {begin + 1}: it is missing; the newest row is never pruned", begin)
    beyond = min((one for one in wanted if one > number), default=None)
    if beyond is not None:
        wrong = f"row {beyond}: it is missing; the log ends with row {number}"
    return Checked(number - begin, number, digest, wrong, begin)


def _begin(wanted: dict[int, str]) -> tuple[int, str, str]:
    """The newest anchor's row and digest, and what is wrong with the anchors, or with what stands before them."""
    number, digest, chain = 0, FIRST, FIRST
    for anchor in AuditAnchor.objects.order_by("number").iterator():
        is_next = anchor.rows == anchor.number - number
        if not is_next or anchor.chain != anchor_chain(chain, anchor.number, anchor.digest, anchor.rows, anchor.at):
            wrong = f"anchor {anchor.number}: it is not what was written, or not after what was written"
            return anchor.number, anchor.digest, wrong
        number, digest, chain = anchor.number, anchor.digest, anchor.chain
        if wrong := _other(number, digest, wanted):
            return number, digest, wrong
    known = set(AuditAnchor.objects.filter(number__among=list(wanted)).values_list("number", flat=True))
    gone = max((one for one in wanted if one < number and one not in known), default=None)
    if gone is not None:
        said = (
            f"row {gone}: it was pruned with the rows up to {number}; name a head from the log since then, or an anchor"
        )
        return number, digest, said
    left = AuditEntry.objects.filter(number__lte=number).order_by("number").values_list("number", flat=True).first()
    if left is not None:
        return number, digest, f"row {left}: it stands before the anchor {number}, where all rows were pruned"
    return number, digest, ""


def _other(number: int, digest: str, wanted: dict[int, str]) -> str:
    """Whether a digest is another than the one that was kept elsewhere, as a sentence's end."""
    if wanted.get(number, digest) == digest:
        return ""
    return f"row {number}: the log says {digest}, but {wanted[number]} was kept elsewhere"
