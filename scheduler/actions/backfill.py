"""Backfill: the head of the queue that waits too long gets a planned start, and later claimants start beside it.

The planned start is the earliest time at which the head's least gang fits as running work is expected to end. Should
estimates be wrong and the end pass by, the room for others closes: a reservation is as old as the head's wait, so
after the longest run on its places nothing that the head needs is given away any more (docs/promises.md, L3).
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scheduler.backfill.expected_ends import Ends
from scheduler.backfill.reservation import Reservation
from scheduler.fit.capacity import Refusal
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Reason
from scheduler.model.partial_cycle import Start, Starts
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Flavor
from scheduler.model.workload import Assignment, Kind, Workload, least
from scheduler.state.ledger import QUEUED, RUNS, STARTED
from scheduler.state.plan import Plan
from scheduler.state.session import Session

MAX_HINTS = 1000  # of heads, most of which have started since
MAX_TRIES = 4  # claimants a round tries to plan for; some cannot be, as services never end

# Refusals that pass when running work ends.
PASSING = frozenset(
    {
        Reason.WAITING_FOR_QUOTA,
        Reason.FAIR_SHARE_EXCEEDED,
        Reason.OVER_LIMIT,
        Reason.RESERVED_FOR_LARGER_JOB,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.GANG_INCOMPLETE,
        Reason.FRAGMENTED,
        Reason.WAITING_FOR_CAPACITY,
    }
)


class Backfill:
    """The reservations of one round: made for the first claimants in line that were refused and waited too long."""

    def __init__(self, session: Session) -> None:
        self.session, self.plan, self.settings = session, session.plan, session.settings
        self.reservations = session.constraints.reservations
        self._tries = 0
        self._waits: NDArray[np.float64] | None = None
        self._by_slot: NDArray[np.float64] | None = None  # of the ledger, which stays as it is in a round
        self._known: tuple[object, Ends] | None = None  # the plan's last decision then, and what followed
        if session.snapshot.scope is not None:
            self._take_over(session.snapshot.scope.starts)

    def _take_over(self, starts: Starts) -> None:
        """Have the planned starts of the last whole round, and make no others.

        What ends elsewhere than on a head's places does not matter to it, so only those there are looked at.
        """
        plan, self._tries = self.plan, MAX_TRIES
        for uid, start in starts:
            head = plan.snapshot.workloads.get(uid)
            if head is not None and head.is_waiting:
                there = plan.ledger.on_nodes({plan.inventory.index.get(place.node, -1) for place in start.places})
                ended = [w for w in there if w.kind is not Kind.INFERENCE and self._end(w) <= start.at]
                self.reservations.append(Reservation(plan, head, start, ended, self.session.times))

    def _end(self, workload: Workload) -> float:
        return self.session.times.planned_end(workload, self.plan.snapshot.at)[0]

    def consider(self, workload: Workload, refusal: Refusal) -> Refusal:
        """Make a reservation for a refused claimant if it is its turn; its reason, with the planned start."""
        plan, settings = self.plan, self.settings
        waited = plan.snapshot.at - workload.queued_at
        if refusal.reason not in PASSING or waited <= settings.reservation_after_seconds or self._tries >= MAX_TRIES:
            return refusal
        options = [f for f in self.session.flavors.of(workload) if self._has_room(f)]
        if not options or waited <= self._window(workload):
            return refusal
        self._tries += 1
        ends = self._ends()
        starts = [start for f in options if (start := self._start(workload, f, ends)) is not None]
        if not starts:
            return refusal
        start = min(starts, key=lambda s: s.at)  # the first flavor where several are as early
        self.reservations.append(Reservation(plan, workload, start, ends.by(start.at), self.session.times))
        return refusal._replace(numbers=(*refusal.numbers, ("planned_start", int(start.at))))

    def _ends(self) -> "Ends":
        """What would be free as running work ends, by the plan as it is."""
        log = self.plan.log
        last = log[-1] if log else None  # below it nothing changes that is held, so it stands for all entries
        if self._known is None or self._known[0] is not last:
            if self._by_slot is None:
                self._by_slot = self.session.memo.ends.of(self.plan.ledger, self.plan.snapshot.at, self.session.times)
            self._known = last, Ends(self.session, self._by_slot)
        return self._known[1]

    def _window(self, workload: Workload) -> float:
        if self._waits is None:
            self._waits = waits(self.plan)
        return window(self._waits, workload, self.settings)

    def _has_room(self, flavor: Flavor | None) -> bool:
        pool = flavor.pool if flavor else ""
        made = sum(kept.start.pool == pool for kept in self.reservations)
        return made < self.settings.reservations_per_pool

    def _start(self, workload: Workload, flavor: Flavor | None, ends: "Ends") -> Start | None:
        """The earliest planned start on one flavor, None if no expected end makes room."""
        goal = Goal(least(workload), least(workload))

        def places_at(time: float) -> tuple[Assignment, ...] | None:
            free = self.plan.beside_no_model(workload, ends.free_at(time), FUTURE_IDLE)  # a model never ends
            return find_places(self.plan.inventory, workload, goal, free, flavor)

        def fits(number: int) -> bool:
            return places_at(ends.times[number]) is not None

        hints, key = self.session.memo.hints, (workload.id, flavor.pool if flavor else "")
        room = _first(len(ends.times), fits, bisect_left(ends.times, hints.get(key, ends.times[-1])))
        if room is not None:
            if len(hints) > MAX_HINTS:
                hints.clear()
            hints[key] = ends.times[room]
        quota = 0 if flavor is None else ends.first_within_quota(workload, flavor.pool)
        if room is None or quota is None:
            return None
        at = ends.times[max(room, quota)]
        places = places_at(at) or ()
        bound = workload.queued_at + self._window(workload) + ends.longest({place.node for place in places})
        return Start(at, bound, flavor.pool if flavor else "", places)


def waits(plan: Plan) -> NDArray[np.float64]:
    """When each one that runs was queued, and how long it waited. Shape [running, 2]."""
    ledger = plan.ledger
    times = ledger.times[ledger.flags[:, RUNS]]
    return np.column_stack([times[:, QUEUED], times[:, STARTED] - times[:, QUEUED]])


def window(known: NDArray[np.float64], head: Workload, settings: Settings) -> float:
    """Seconds after which a head has waited too long, by how long those had to wait that came before it and run.

    Not by those that came later: what overtakes it must not make its own wait look usual. `known`: see `waits`.
    """
    earlier = known[known[:, 0] <= head.queued_at, 1]
    usual = settings.reservation_after_waits * float(np.median(earlier)) if earlier.size else 0.0
    return max(settings.reservation_after_seconds, min(usual, settings.reservation_after_max_seconds))


def _first(count: int, holds: Callable[[int], bool], guess: int) -> int | None:
    """The first of `count` numbers for which it holds, None if it holds for none. Once it holds, it holds on.

    A good guess only saves questions.
    """
    low, high, guess = 0, count - 1, min(guess, count - 1)
    if holds(guess):
        if guess == 0 or not holds(guess - 1):
            return guess
        high = guess - 1
    elif guess == high or not holds(high):
        return None
    else:
        low = guess + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
