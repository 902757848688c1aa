"""Reading the events in their order, each at least once, whatever order their transactions commit in.

On Postgres an event has its number before it is committed, so one may appear below others that were read already. A
reader therefore remembers the numbers that it did not see; those that stay away for longer than any transaction lasts
were rolled back. SQLite has one writer and no such gaps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Max, Q

from controlplane.models import Event, EventCursor

LATE_SECONDS = 300.0  # a round that hangs loses its lease after 120 s, and statements of users are cut off sooner
MAX_GAPS = 200

Gap = tuple[int, int, float]  # first and last number, and when it was first missed


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader has read. `gaps` are numbers before it that were not there."""

    event: int
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Events in their order, and where reading goes on after them."""

    rows: tuple[Any, ...]
    place: Place


def place(reader: str) -> Place | None:
    """Where a reader is; None if it has not begun."""
    found = EventCursor.objects.filter(reader=reader).values_list("event", "missing").first()
    return None if found is None else Place(found[0], tuple((a, b, at) for a, b, at in found[1]))


def last() -> int:
    """The number of the newest event; 0 without any."""
    return Event.objects.aggregate(last=Max("id"))["last"] or 0


def after(at: Place, names: tuple[str, ...], condition: Q, *, now: float, most: int) -> Part:
    """The next events that meet a condition, of the next `most`; `names` are columns, of which the first is id.

    now is the database's clock in seconds.
    """
    numbers = list(Event.objects.filter(id__gt=at.event).order_by("id").values_list("id", flat=True)[:most])
    late = _numbers_in(at.gaps)
    if not numbers and not late:
        return Part((), Place(at.event, tuple(gap for gap in at.gaps if now - gap[2] < LATE_SECONDS)))
    end = numbers[-1] if numbers else at.event
    there = {*numbers, *late}
    within = _within([(first, last_) for first, last_, _ in at.gaps] + [(at.event + 1, end)])
    found = Event.objects.filter(within, condition).order_by("id").values_list(*names)
    gaps = [gap for gap in at.gaps if now - gap[2] < LATE_SECONDS] + [(at.event + 1, end, now)]
    left = tuple(part for gap in gaps for part in _without(gap, there))
    return Part(tuple(row for row in found if row[0] in there), Place(end, left[-MAX_GAPS:]))


def _numbers_in(gaps: Sequence[Gap]) -> list[int]:
    if not gaps:
        return []
    within = _within([(first, last_) for first, last_, _ in gaps])
    return list(Event.objects.filter(within).order_by().values_list("id", flat=True))


def _within(ranges: Sequence[tuple[int, int]]) -> Q:
    return reduce(or_, (Q(id__range=ends) for ends in ranges))


def _without(gap: Gap, there: Iterable[int]) -> list[Gap]:
    """What is left of a gap without these numbers."""
    first, end, since = gap
    left: list[Gap] = []
    for number in sorted(one for one in there if first <= one <= end):
        if number > first:
            left.append((first, number - 1, since))
        first = number + 1
    return [*left, (first, end, since)] if first <= end else left
