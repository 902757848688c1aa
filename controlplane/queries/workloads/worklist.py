"""The list of workloads as its address states it: filters, an order, and a place in it.

Pages go by a cursor - the last row's value and number - so that one that is far down costs what the first one costs,
and nothing is shown twice or left out while work comes and goes.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet

from controlplane.models import Workload
from controlplane.queries.accounts import access
from controlplane.queries.workloads.workloads import filtered, visible
from scheduler.model.workload import ACTIVE, ENDED, LEAVING, WAITING, Kind, Phase

GROUPS = {"waiting": WAITING, "active": ACTIVE | LEAVING, "ended": ENDED}
LONGEST = 63  # characters of a filter; longer ones are cut, as no name is longer
NEWEST = "-age"
# What one may sort by -> the column, or what is computed. `age` goes by the number of the submission.
COLUMNS = {
    "age": "seq",
    "name": "name",
    "team": "team__name",
    "phase": "phase",
    "priority": "priority",
    "gpus": "milli",
}
ASKED = F("workers") * (F("gpus") * 1000 + F("share_guarantee"))  # milli-GPU of all workers


@dataclass(frozen=True, slots=True)
class Filters:
    """What an address asks for; what it does not say, or says oddly, is empty."""

    q: str = ""
    team: str = ""
    type: str = ""
    phase: str = ""
    reason: str = ""
    by: str = ""
    priority: str = ""
    sort: str = NEWEST

    @property
    def is_narrow(self) -> bool:
        """Whether anything is left out."""
        return any((self.q, self.team, self.type, self.phase, self.reason, self.by, self.priority))

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that it names."""
        return tuple(p.value for p in GROUPS[self.phase]) if self.phase in GROUPS else (self.phase,) * bool(self.phase)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the list; cursors are empty where there is nothing."""

    rows: Sequence[Workload]
    total: int
    following: str
    previous: str


def read_filters(given: Mapping[str, str]) -> Filters:
    """The filters of an address: an odd one is no reason to fail."""
    text = {name: given.get(name, "").replace("\x00", "")[:LONGEST] for name in Filters.__slots__}
    is_kind, is_phase = text["type"] in set(Kind), text["phase"] in {*GROUPS, *(p.value for p in Phase)}
    is_order = text["sort"].removeprefix("-") in COLUMNS
    return Filters(
        **{**text, "type": text["type"] if is_kind else "", "phase": text["phase"] if is_phase else "",
           "sort": text["sort"] if is_order else NEWEST}
    )  # fmt: skip


def page(user: access.Person, filters: Filters, cursor: str, size: int) -> Page:
    """So many rows from the cursor on, and how many there are in all. Two queries and those of the user's roles."""
    found = matching(user, filters)
    column = COLUMNS[filters.sort.removeprefix("-")]
    if column == "milli":
        found = found.annotate(milli=ASKED)
    is_down = filters.sort.startswith("-")
    at = _decoded(cursor, filters.sort)
    is_back = at is not None and at[2]
    ordered = found.order_by(*_order(column, is_down != is_back))
    if at is not None:
        ordered = ordered.filter(_beyond(column, at, is_down != is_back))
    rows = list(ordered.defer("spec")[: size + 1])
    has_more = len(rows) > size
    rows = rows[:size][::-1] if is_back else rows[:size]
    has_following, has_previous = (True, has_more) if is_back else (has_more, at is not None)
    ends = [_encoded(filters.sort, _value(rows[i], column), rows[i].seq, i == 0) for i in (-1, 0)] if rows else ["", ""]
    return Page(rows, found.count(), ends[0] if has_following else "", ends[1] if has_previous else "")


def matching(user: access.Person, filters: Filters) -> QuerySet[Workload]:
    """All that the filters leave of what the user may see."""
    found = filtered(
        visible(user),
        team=filters.team or None,
        kind=filters.type or None,
        phases=filters.phases,
        text=filters.q or None,
    )
    columns = {"reason": filters.reason, "created_by__username": filters.by, "priority_class__name": filters.priority}
    return found.filter(**{column: value for column, value in columns.items() if value})


def reasons(user: access.Person) -> list[str]:
    """Why what the user may see waits, for the filter's choices."""
    waiting = visible(user).filter(phase__in=[p.value for p in WAITING]).exclude(reason="").order_by()
    return sorted(waiting.values_list("reason", flat=True).distinct())


def _order(column: str, is_down: bool) -> tuple[str, ...]:
    names = (column,) if column == "seq" else (column, "seq")
    return tuple(f"-{name}" for name in names) if is_down else names


def _beyond(column: str, at: tuple[Any, int, bool], is_down: bool) -> Q:
    way = "lt" if is_down else "gt"
    value, seq, _ = at
    if column == "seq":
        return Q(**{f"seq__{way}": seq})
    return Q(**{f"{column}__{way}": value}) | Q(**{column: value, f"seq__{way}": seq})


def _value(row: Workload, column: str) -> Any:
    return row.team.name if column == "team__name" else getattr(row, column)


def _encoded(sort: str, value: Any, seq: int, is_back: bool) -> str:
    text = json.dumps([sort, value, seq, is_back], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str, sort: str) -> tuple[Any, int, bool] | None:
    """(value, number, whether backwards) of a cursor of this order; None for any other text: the first page."""
    if not cursor or len(cursor) > 400:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        order, value, seq, is_back = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        return None
    wanted = int if COLUMNS[sort.removeprefix("-")] in ("seq", "priority", "milli") else str
    is_ours = order == sort and type(value) is wanted and type(seq) is int and type(is_back) is bool
    is_small = is_ours and 0 <= seq < 2**63 and (wanted is str or -(2**62) < value < 2**62)
    return (value, seq, is_back) if is_small and "\x00" not in str(value) else None
