"""The log of events as one follows it: whole, in order, and from any number on.

Numbers are given before a transaction commits, so on Postgres a lower one may appear after a higher one. A `Reader`
therefore stops before a hole until all transactions that ran when it saw the hole have ended: whatever is told has a
number below which nothing can appear any more, and a reader that knows the last number it got can go on there.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from django.db import connection
from django.db.models import Max, Min

from controlplane.models import Event
from controlplane.models.statements import transactions
from controlplane.queries.accounts import access
from controlplane.queries.audit import naming
from scheduler.model.mention import mentioned

MAX_AT_ONCE = 500  # events of one look
MAX_BEHIND = 5_000  # events that are sent again to a reader that comes back; beyond, listing anew is cheaper
LOOKBACK = 1_000  # events among which a hole is looked for at the start
PATIENCE, PAUSE = 1.0, 0.02  # s that a reader waits at the start for transactions to end; between two looks


@dataclass(frozen=True, slots=True)
class Scope:
    """Which events are sent: of these teams (None: all), and of this workload only, if one is named."""

    teams: frozenset[str] | None
    workload: UUID | None = None

    def has(self, event: Event) -> bool:
        """Whether this event is told."""
        if event.workload is None or self.workload not in (None, event.workload):
            return False
        return self.teams is None or event.team in self.teams


class Reader:
    """Reads the log forward from now on; `last` is the number of the last event that was read."""

    def __init__(self) -> None:
        self.last = _settled()
        self._hole = (0, 0)  # the number that is missing, and the first transaction that cannot write it

    def read(self) -> Sequence[Event]:
        """The next events, none of which can be preceded by one that is not told."""
        running = transactions()[0] if self._hole[0] > self.last else 0
        found = list(Event.objects.filter(id__gt=self.last).order_by("id")[:MAX_AT_ONCE])
        at = self.last
        for place, event in enumerate(found):
            if event.pk != at + 1 and self._may_fill(at + 1, running):
                found = found[:place]
                break
            at = event.pk
        self.last = found[-1].pk if found else self.last
        return _with_mentions(found)

    def _may_fill(self, number: int, running: int) -> bool:
        """Whether an event of this number may appear yet. `running`: no older transaction ran before the look."""
        if connection.vendor != "postgresql":
            return False  # one writer at a time: numbers appear in their order
        if self._hole[0] != number:
            self._hole = (number, transactions()[1])
            return True
        return running < self._hole[1]


def newest(workload: UUID | None = None) -> int:
    """The number of the newest event, of one workload if it is named; 0 without any."""
    found = Event.objects.all() if workload is None else Event.objects.filter(workload=workload)
    return found.aggregate(last=Max("id"))["last"] or 0


def oldest() -> int:
    """The number of the oldest event that is kept; 0 without any."""
    return Event.objects.aggregate(first=Min("id"))["first"] or 0


def between(after: int, until: int, scope: Scope) -> Sequence[Event] | None:
    """What a scope is told of the events after one number up to another; None if it is more than MAX_BEHIND."""
    found = Event.objects.filter(id__gt=after, id__lte=until, workload__isnull=False)
    found = found if scope.teams is None else found.filter(team__in=scope.teams)
    found = found if scope.workload is None else found.filter(workload=scope.workload)
    rows = list(found.order_by("id")[: MAX_BEHIND + 1])
    return _with_mentions(rows) if len(rows) <= MAX_BEHIND else None


def text(event: Event) -> str:
    """All of an event that may mention workloads."""
    return f"{event.message} {event.data}" if event.message or event.data else ""


def _with_mentions(events: Sequence[Event]) -> Sequence[Event]:
    """The events with what they mention. One query at most."""
    names = naming.names_in(map(text, events))
    for event in events if names else ():
        event.mentions = {uid: names[uid] for uid in mentioned(text(event)) if uid in names}
    return events


def teams_of(user: access.Person) -> frozenset[str] | None:
    """The teams whose events the user may be told; None: all."""
    return None if access.is_platform_admin(user) else frozenset(access.team_names(user))


def _settled() -> int:
    """The number of the newest event, once every transaction that may write a lower one has ended.

    Where one runs for longer than PATIENCE it is the last number before a hole: better told twice than not at all.
    """
    last = newest()
    if connection.vendor != "postgresql":
        return last
    following, until = transactions()[1], time.monotonic() + PATIENCE
    while transactions()[0] < following:
        if time.monotonic() >= until:
            return _before_a_hole(last)
        time.sleep(PAUSE)
    return last


def _before_a_hole(last: int) -> int:
    near = Event.objects.filter(id__gt=last - LOOKBACK, id__lte=last).order_by("id").values_list("id", flat=True)
    numbers = list(near)
    return next((one for one, two in pairwise(numbers) if two != one + 1), last)
