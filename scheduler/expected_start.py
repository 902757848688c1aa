"""When a waiting workload is expected to start: the queue played forward by expected ends, in several scenarios.

A scenario draws a running time for each workload from its distribution, given how long it runs already; the draws are
a fixed low-discrepancy sequence, so equal input gives equal output. The queue ahead of the workload is then started
in the order of the next round as capacity comes free, by GPUs on nodes and by the teams' limits; cores, memory, racks
and work that is not submitted yet are left out. What that leaves out, history corrects: past predictions are
compared with the waits that followed, and each end of the interval is moved so that it would have been right as often
as it says (split conformal prediction; Papadopoulos et al. 2002, Vovk et al. 2005).
"""

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.actions.backfill import PASSING
from scheduler.decision import Reason
from scheduler.fit import flavors, least
from scheduler.forecast import HIGH, LOW, MEDIAN, RunTime, Spread, age, run_time
from scheduler.history import LEAST, LEVELS, History, Mistake, at_levels
from scheduler.plan import Plan
from scheduler.quota import CLUSTER
from scheduler.schedule import outcomes
from scheduler.settings import Settings
from scheduler.snapshot import COMPUTE, LATER, Ints, Snapshot
from scheduler.workload import Kind, Level, Workload

SCENARIOS = 30
MOST_EVENTS = 20_000  # ends in all scenarios together: the answer is given within a second
SLACK = 60.0  # s added to both waits before they are divided: a wait of nothing says nothing about ratios
_STEP = (0.7548776662466927, 0.5698402909980532)  # R2 sequence (Roberts 2018): the next scenario, the next workload

Held = dict[tuple[str, str], int]  # milli-GPU by team and pool
Nodes = list[tuple[int, int]]  # numbers of nodes, milli-GPU there
Key = tuple[tuple[int, ...], int, int, bool, str]  # flavors, milli of a worker, workers, whether on one node, team


@dataclass(frozen=True, slots=True)
class _Claim:
    """One in the queue, as the play sees it."""

    workload: Workload
    key: Key
    run: RunTime
    ran: float


def expected_start(
    snapshot: Snapshot, workload_id: str, settings: Settings, history: History | None = None
) -> Spread | None:
    """When the workload is expected to start, as an interval that is right 8 times in 10; None if nobody can say.

    Nobody can say for what is not in the queue, is not allowed to start, or waits for what does not end by itself.
    Raises KeyError if the workload is not in the snapshot. history: by default the snapshot's.
    """
    asked = snapshot.workloads[workload_id]
    return expected_starts(snapshot, settings, history, until=asked.id).get(asked.id)


def expected_starts(
    snapshot: Snapshot, settings: Settings, history: History | None = None, until: str | None = None
) -> dict[str, Spread]:
    """The expected starts of all in the queue of whom one can be said; with `until`, up to this workload's start."""
    history = snapshot.history if history is None else history
    plan, queue, out = Plan(snapshot), [], {}
    for workload, refusal in outcomes(plan, settings):
        if refusal is None:
            out[workload.id] = Spread(snapshot.at, snapshot.at, snapshot.at)
        elif refusal.reason in PASSING or refusal.reason is Reason.BEHIND_HIGHER_PRIORITY:
            queue.append(workload)
    if until in out:
        return out
    play = _Play(plan, queue, history, settings)
    for workload, waits in zip(queue, play.waits(until), strict=True):
        raw = Spread(*(float(np.quantile(waits, level, method="nearest")) for level in (LOW, MEDIAN, HIGH)))
        if (found := corrected(raw, snapshot.at, history)) is not None:
            out[workload.id] = found
    return out


def corrected(waits: Spread, at: float, history: History) -> Spread | None:
    """The interval around predicted waits that past predictions would have needed. Times, from waits in seconds."""
    if math.isinf(waits.median):
        return None
    factors = (1.0, 1.0, 1.0)
    if history.mistakes:
        levels = (LEVELS.index(LOW), LEVELS.index(MEDIAN), LEVELS.index(HIGH))
        low, median, high = (values[level] for values, level in zip(history.mistakes, levels, strict=True))
        factors = (low, median, high)
    low, median, high = (
        at + max(0.0, (wait + SLACK) * factor - SLACK)
        for wait, factor in zip((waits.low, waits.median, waits.high), factors, strict=True)
    )
    return Spread(min(low, median), median, max(median, high))


def mistakes(pairs: Iterable[Mistake]) -> tuple[tuple[float, ...], ...]:
    """By how much past predictions were off, for `History.mistakes`: actual over predicted waits, at LEVELS."""
    found = list(pairs)
    if len(found) < LEAST:
        return ()
    return tuple(
        at_levels([(mistake.actual + SLACK) / (getattr(mistake, name) + SLACK) for mistake in found])
        for name in ("low", "median", "high")
    )


class _Play:
    """The queue on nodes that only know free milli-GPUs."""

    def __init__(self, plan: Plan, queue: list[Workload], history: History, settings: Settings) -> None:
        self.plan, self.at, self.settings = plan, plan.snapshot.at, settings
        inventory = plan.inventory
        self.node_flavor = np.full(len(inventory.nodes), -1, dtype=np.int64)
        for number, flavor in enumerate(inventory.flavors):
            self.node_flavor[flavor.nodes & inventory.usable] = number
        devices = np.maximum(inventory.gpu_capacity[COMPUTE] - plan.columns.gpu[LATER, COMPUTE], 0)
        self.free: Ints = np.bincount(inventory.node_of, devices, len(inventory.nodes)).astype(np.int64)
        self.limits = _Limits(plan)
        self.queue = [self._claim(w, history, settings) for w in queue]
        self.running = [
            (self._claim(w, history, settings), self._held(w))
            for w in sorted(_holders(plan), key=lambda w: (w.seq, w.id))
            if w.kind is not Kind.INFERENCE
        ]

    def waits(self, until: str | None) -> list[list[float]]:
        """Seconds until each of the queue starts, one for each scenario; inf where it does not in that scenario.

        until: a scenario ends with this one's start.
        """
        last = next((n for n, claim in enumerate(self.queue) if claim.workload.id == until), None)
        out: list[list[float]] = [[] for _ in self.queue]
        budget = MOST_EVENTS
        for scenario in range(SCENARIOS):
            waits, events = self._scenario(scenario, last)
            for known, wait in zip(out, waits, strict=True):
                known.append(wait)
            budget -= events
            if budget < 0 and scenario + 1 >= SCENARIOS // 3:
                break
        return out

    def _scenario(self, scenario: int, last: int | None) -> tuple[list[float], int]:
        """(seconds until each of the queue starts, ends looked at) if everything lasts as drawn."""
        free, held = self.free.copy(), dict(self.limits.held)
        ends = [
            (self._end(claim, scenario, number, self.at - claim.ran), number, claim, nodes)
            for number, (claim, nodes) in enumerate(self.running)
        ]
        heapq.heapify(ends)
        queues: dict[Key, deque[int]] = {}
        for place, claim in enumerate(self.queue):
            queues.setdefault(claim.key, deque()).append(place)
        waits = [math.inf] * len(self.queue)
        number, now, events = len(ends), self.at, 0
        freed: set[int] | None = None  # None: everything has to be tried
        while queues:
            for place, nodes in self._started(queues, free, held, freed, now):
                waits[place] = now - self.at
                claim, number = self.queue[place], number + 1
                heapq.heappush(ends, (self._end(claim, scenario, number, now - claim.ran), number, claim, nodes))
            if not ends or math.isinf(ends[0][0]) or (last is not None and not math.isinf(waits[last])):
                break
            now, freed = max(now, ends[0][0]), set()
            while ends and ends[0][0] <= now:
                _, _, claim, nodes = heapq.heappop(ends)
                freed.update(node for node, _ in nodes)
                self._give_back(claim, nodes, free, held)
                events += 1
        return waits, events

    def _started(
        self, queues: dict[Key, deque[int]], free: Ints, held: Held, freed: set[int] | None, now: float
    ) -> Iterator[tuple[int, Nodes]]:
        """Start in order whatever fits now; who asks the same as one that does not fit is not tried.

        Behind one that waited so long that it has a reservation, nothing starts on its flavors.
        """
        heads = [(queue[0], key) for key, queue in queues.items()]
        heapq.heapify(heads)
        kept: frozenset[int] = frozenset()
        while heads:
            place, key = heapq.heappop(heads)
            options = [option for option in key[0] if option not in kept]
            nodes = self._start(key, options, free, held) if _may_fit(key, free, freed) else None
            if nodes is None:
                waited = now - self.queue[place].workload.queued_at
                if self.settings.reservations_per_pool and waited > self.settings.reservation_after_most_seconds:
                    kept |= set(key[0])
                continue
            queues[key].popleft()
            if queues[key]:
                heapq.heappush(heads, (queues[key][0], key))
            else:
                del queues[key]
            yield place, nodes

    def _end(self, claim: _Claim, scenario: int, number: int, began: float) -> float:
        level = (0.5 + _STEP[0] * scenario + _STEP[1] * number) % 1.0
        return began + claim.run.given(claim.ran, level)

    def _start(self, key: Key, options: list[int], free: Ints, held: Held) -> Nodes | None:
        """Take a place on one of the options, by node and milli-GPU, or None."""
        _, milli, workers, is_together, team = key
        if not milli:
            return []  # cores are not played
        for option in options:
            if not self.limits.allow(team, self._pool(option), milli * workers, held):
                continue
            there = np.flatnonzero((self.node_flavor == option) & (free >= milli))
            room = free[there] // milli
            if int(room.sum()) < workers or (is_together and int(room.max(initial=0)) < workers):
                continue
            nodes = _fill(there, room, workers, is_together, milli)
            for node, amount in nodes:
                free[node] -= amount
            self.limits.charge(team, self._pool(option), milli * workers, held)
            return nodes
        return None

    def _give_back(self, claim: _Claim, nodes: Nodes, free: Ints, held: Held) -> None:
        for node, amount in nodes:
            free[node] += amount
        if nodes:
            total = sum(amount for _, amount in nodes)
            self.limits.charge(claim.workload.team, self._pool(int(self.node_flavor[nodes[0][0]])), -total, held)

    def _pool(self, option: int) -> str:
        return self.plan.inventory.flavors[option].pool if option >= 0 else ""

    def _claim(self, w: Workload, history: History, settings: Settings) -> _Claim:
        known = self.plan.inventory.flavors
        options = tuple(known.index(f) for f in flavors(self.plan, w) if f is not None)
        # Whole GPUs of a worker have to be on one node; a gang's workers only if it says so.
        is_together = w.topology.require is not None and w.topology.require <= Level.NODE
        key = options, w.ask.milli, least(w), is_together, w.team
        return _Claim(w, key, run_time(w, history, settings), age(w, self.at))

    def _held(self, w: Workload) -> Nodes:
        index = self.plan.inventory.index
        return [(index[a.node], w.ask.milli) for a in w.placement if a.node in index and not a.leaving]


def _may_fit(key: Key, free: Ints, freed: set[int] | None) -> bool:
    """Whether trying again is worth it: one worker that did not fit before fits only where something ended."""
    _, milli, workers, is_together, _ = key
    if freed is None or not milli:
        return True
    if workers > 1 and not is_together:
        return True
    return any(int(free[node]) >= milli * workers for node in freed)


def _fill(there: Ints, room: Ints, workers: int, is_together: bool, milli: int) -> Nodes:
    """Nodes and milli-GPU: one worker or a gang on one node where it fits tightest, others on the roomiest nodes."""
    if workers == 1 or is_together:
        fits = np.flatnonzero(room >= workers)
        return [(int(there[fits[np.argmin(room[fits])]]), milli * workers)]
    out = []
    for at in np.argsort(-room, kind="stable").tolist():
        take = min(workers, int(room[at]))
        out.append((int(there[at]), take * milli))
        workers -= take
        if not workers:
            break
    return out


def _holders(plan: Plan) -> list[Workload]:
    """Who holds GPUs or will: as the snapshot has it, and as the next round changes it."""
    now = {w.id: w for w in plan.holding} | {uid: plan.workload(uid) for uid in plan.changed()}
    return [w for w in now.values() if any(not a.leaving for a in w.placement)]


class _Limits:
    """The most each team's subtree may hold, for those that have such a limit."""

    def __init__(self, plan: Plan) -> None:
        tree, total = plan.usage.tree, plan.usage.total[LATER]
        self.most = {key: pot.most for key, pot in tree.pots.items() if key[0] != CLUSTER and pot.most is not None}
        self.held = {key: total[key] for key in self.most}
        self._paths = tree.paths

    def allow(self, team: str, pool: str, milli: int, held: Held) -> bool:
        """Whether the team may hold so much more."""
        keys = ((name, pool) for name in self._paths.get(team, ()))
        return all(held[key] + milli <= self.most[key] for key in keys if key in held)

    def charge(self, team: str, pool: str, milli: int, held: Held) -> None:
        """Note that the team holds so much more."""
        for name in self._paths.get(team, ()):
            if (name, pool) in held:
                held[name, pool] += milli
