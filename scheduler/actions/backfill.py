"""Backfill: the head of the queue that waits too long gets a planned start, and later claimants start beside it.

The planned start is the earliest time at which the head's least gang fits as running work is expected to end. Should
estimates be wrong and the end pass by, the room for others closes: a reservation is as old as the head's wait, so
after the longest run on its places nothing that the head needs is given away any more (reliability.md P12, L3).
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.decision import Reason
from scheduler.fit import Refusal, flavors
from scheduler.forecast import planned_end
from scheduler.gang import Goal, find_places
from scheduler.ledger import Floats
from scheduler.plan import Free, Plan, free_of
from scheduler.reservation import Reservation
from scheduler.scope import Start, Starts
from scheduler.settings import Settings
from scheduler.snapshot import COMPUTE, LATER, MEMORY, Flavor, Ints, whens
from scheduler.workload import Kind, Workload, least

MOST_HINTS = 1000  # of heads, most of which have started since
MOST_TRIES = 4  # claimants a round tries to plan for; some cannot be, as services never end

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

    def __init__(self, plan: Plan, settings: Settings) -> None:
        self.plan = plan
        self.settings = settings
        self._tries = 0
        self._waits: NDArray[np.float64] | None = None
        self._known: tuple[object, _Ends] | None = None  # the plan's last decision then, and what followed
        if plan.snapshot.scope is not None:
            self._take_over(plan.snapshot.scope.starts)

    def _take_over(self, starts: Starts) -> None:
        """Have the planned starts of the last whole round, and make no others.

        What ends elsewhere than on a head's places does not matter to it, so only those there are looked at.
        """
        plan, self._tries = self.plan, MOST_TRIES
        for uid, start in starts:
            head = plan.snapshot.workloads.get(uid)
            if head is not None and head.is_waiting:
                there = plan.ledger.on_nodes({plan.inventory.index.get(place.node, -1) for place in start.places})
                ended = [w for w in there if w.kind is not Kind.INFERENCE and self._end(w) <= start.at]
                plan.reservations.append(Reservation(plan, head, start, ended, self.settings))

    def _end(self, workload: Workload) -> float:
        snapshot = self.plan.snapshot
        return planned_end(workload, snapshot.at, snapshot.history, self.settings)[0]

    def consider(self, workload: Workload, refusal: Refusal) -> Refusal:
        """Make a reservation for a refused claimant if it is its turn; its reason, with the planned start."""
        plan, settings = self.plan, self.settings
        waited = plan.snapshot.at - workload.queued_at
        if refusal.reason not in PASSING or waited <= settings.reservation_after_seconds or self._tries >= MOST_TRIES:
            return refusal
        options = [f for f in flavors(plan, workload) if self._has_room(f)]
        if not options or waited <= self._window(workload):
            return refusal
        self._tries += 1
        ends = self._ends()
        starts = [start for f in options if (start := self._start(workload, f, ends)) is not None]
        if not starts:
            return refusal
        start = min(starts, key=lambda s: s.at)  # the first flavor where several are as early
        plan.reservations.append(Reservation(plan, workload, start, ends.by(start.at), settings))
        return refusal._replace(numbers=(*refusal.numbers, ("planned_start", int(start.at))))

    def _ends(self) -> "_Ends":
        """What would be free as running work ends, by the plan as it is."""
        log = self.plan.log
        last = log[-1] if log else None  # below it nothing changes that is held, so it stands for all entries
        if self._known is None or self._known[0] is not last:
            self._known = last, _Ends(self.plan, self.settings)
        return self._known[1]

    def _window(self, workload: Workload) -> float:
        if self._waits is None:
            self._waits = waits(self.plan)
        return window(self._waits, workload, self.settings)

    def _has_room(self, flavor: Flavor | None) -> bool:
        pool = flavor.pool if flavor else ""
        made = sum(kept.start.pool == pool for kept in self.plan.reservations)
        return made < self.settings.reservations_per_pool

    def _start(self, workload: Workload, flavor: Flavor | None, ends: "_Ends") -> Start | None:
        """The earliest planned start on one flavor, None if no expected end makes room."""
        goal = Goal(least(workload), least(workload))

        def fits(number: int) -> bool:
            free = ends.free_at(ends.times[number])
            return find_places(self.plan.inventory, workload, goal, free, flavor) is not None

        hints, key = self.plan.ledger.hints, (workload.id, flavor.pool if flavor else "")
        room = _first(len(ends.times), fits, bisect_left(ends.times, hints.get(key, ends.times[-1])))
        if room is not None:
            if len(hints) > MOST_HINTS:
                hints.clear()
            hints[key] = ends.times[room]
        quota = 0 if flavor is None else ends.first_within_quota(workload, flavor.pool)
        if room is None or quota is None:
            return None
        at = ends.times[max(room, quota)]
        places = find_places(self.plan.inventory, workload, goal, ends.free_at(at), flavor) or ()
        bound = workload.queued_at + self._window(workload) + ends.longest({place.node for place in places})
        return Start(at, bound, flavor.pool if flavor else "", places)


def waits(plan: Plan) -> NDArray[np.float64]:
    """When each one that runs was queued, and how long it waited. Shape [running, 2]."""
    found = [(w.queued_at, w.started_at - w.queued_at) for w in plan.holding if w.started_at is not None]
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def window(known: NDArray[np.float64], head: Workload, settings: Settings) -> float:
    """Seconds after which a head has waited too long, by how long those had to wait that came before it and run.

    Not by those that came later: what overtakes it must not make its own wait look usual. `known`: see `waits`.
    """
    earlier = known[known[:, 0] <= head.queued_at, 1]
    usual = settings.reservation_after_waits * float(np.median(earlier)) if earlier.size else 0.0
    return max(settings.reservation_after_seconds, min(usual, settings.reservation_after_most_seconds))


class _Held(NamedTuple):
    """One workload that holds capacity: its expected end, and how long it runs in all (as expected, or so far)."""

    end: float
    seconds: float
    workload: Workload


class _Ends:
    """What would be free as running work ends: rows of what each worker holds, in the order of expected ends."""

    def __init__(self, plan: Plan, settings: Settings) -> None:
        self.plan = plan
        at, history = plan.snapshot.at, plan.snapshot.history
        now = {w.id: w for w in plan.holding} | {uid: plan.workload(uid) for uid in plan.changed()}
        held = []
        for workload in now.values():
            if workload.placement and workload.kind is not Kind.INFERENCE:
                held.append(_Held(*planned_end(workload, at, history, settings), workload))
        self.held = sorted(held, key=lambda h: (h.end, h.workload.seq, h.workload.id))
        # A claimant may fit as things stand, and only quota be in the way: then the first time is now.
        self.times = sorted({at, *(h.end for h in self.held)})
        self._build_rows()

    def _build_rows(self) -> None:
        """Rows of the ledger where a workload is still as it was, of the others anew."""
        inventory, ledger = self.plan.inventory, self.plan.ledger
        ends = np.full(len(ledger.ints), np.inf)
        devices: list[tuple[float, int, int, int]] = []
        hosts: list[tuple[float, int, int, int]] = []
        offset = inventory.offset
        for end, _, workload in self.held:
            if ledger.holding.get(workload.id) is workload:
                ends[ledger.slot[workload.id]] = end
                continue
            for worker in workload.placement:
                node = inventory.index.get(worker.node)
                if node is not None and LATER in whens(workload, worker):
                    ask = workload.ask_of(worker.rank)
                    milli, memory = ask.on_device
                    hosts.append((end, node, ask.cpu_milli, ask.memory))
                    first, after = int(offset[node]), int(offset[node + 1])
                    devices += [(end, first + i, milli, memory) for i in worker.gpus if first + i < after]
        self._devices = np.concatenate([_timed(ledger.rows.devices, ends), np.array(devices).reshape(-1, 4)])
        self._hosts = np.concatenate([_timed(ledger.rows.hosts, ends), np.array(hosts).reshape(-1, 4)])

    def by(self, time: float) -> list[Workload]:
        """Those expected to have ended by then."""
        return [h.workload for h in self.held if h.end <= time]

    def longest(self, nodes: set[str]) -> float:
        """Seconds the longest of those runs that hold one of these nodes."""
        there = (h.seconds for h in self.held if any(a.node in nodes for a in h.workload.placement))
        return max(there, default=0.0)

    def free_at(self, time: float) -> Free:
        """What would be free then for one more claimant, if nothing else started."""
        plan, inventory = self.plan, self.plan.inventory
        gpu = inventory.gpu_capacity - plan.columns.gpu[LATER]
        node = inventory.node_capacity - plan.columns.node[LATER]
        rows, hosts = self._devices[self._devices[:, 0] <= time], self._hosts[self._hosts[:, 0] <= time]
        for kind, column in ((COMPUTE, 2), (MEMORY, 3)):
            gpu[kind] += _sums(rows, column, gpu.shape[1])
            node[kind] += _sums(hosts, column, node.shape[1])
        for kept in plan.reservations:
            free = kept.free(inventory)
            gpu, node = np.minimum(gpu, free.gpu), np.minimum(node, free.node)
        gpu = np.where(inventory.gpu_capacity > 0, gpu, 0)
        return free_of(inventory, gpu, node)

    def first_within_quota(self, workload: Workload, pool: str) -> int | None:
        """The first of the times at which its team's quota in the pool covers the workload, None if none does."""
        need, team = workload.need_milli(least(workload)), workload.team
        usage = self.plan.usage.copy()

        def is_covered() -> bool:
            is_firm = not workload.preemptible
            room = usage.available(team, pool, LATER)
            return need <= (min(room, usage.within_nominal(team, pool, LATER, firm_only=True)) if is_firm else room)

        rest = iter(self.held)
        held = next(rest, None)
        for number, time in enumerate(self.times):
            while held is not None and held.end <= time:
                usage.count(held.workload, -1)
                held = next(rest, None)
            if is_covered():
                return number
        return None


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


def _timed(rows: Ints, ends: Floats) -> Floats:
    """Rows of the ledger with the expected end in the place of the slot, without rank; only those that have one."""
    times = ends[rows[:, 0]]
    return np.column_stack([times, rows[:, 1:4]])[np.isfinite(times)]


def _sums(rows: NDArray[np.float64], column: int, count: int) -> NDArray[np.int64]:
    return np.bincount(rows[:, 1].astype(np.int64), rows[:, column], count).astype(np.int64)
