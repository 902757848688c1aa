"""What a waiting queue adds to placing pods as they come: up to so many wait, and the best pair of pod and place goes.

Apart from the figures: a pod that may wait is another problem than one that must be placed or dropped at once.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controlplane.benchmarks.scheduling.arrivals import Scorer, World, fleet_of
from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.demand import Demand, demand_of
from scheduler.model.snapshot import Node
from scheduler.model.workload import ResourceRequest
from scheduler.placement import loops
from scheduler.placement.fits import FirstFit
from scheduler.placement.fleet import Kind, devices_of, take, want_of
from scheduler.placement.packable import PackableCapacity
from scheduler.placement.rows import Fleet, Want

SEEDS = 2  # of the list: each decision looks at all that waits
WAITING = 50  # pods that wait at most
LEARN_FROM, LEARN_AGAIN = 50, 1.3  # pods seen before the first forecast, and growth until the next
SIZES = ((WHOLE - 1, "shares"), (WHOLE, "1 GPU"), (7 * WHOLE, "2 to 7 GPUs"), (64 * WHOLE, "8 GPUs"))


@dataclass(slots=True)
class Waited:
    """How one run with a queue went. waits: for each size, how many pods arrived between a pod's arrival and place."""

    at_100: float = 0.0
    final: float = 0.0
    waits: dict[str, list[int]] = field(default_factory=lambda: {name: [] for _, name in SIZES})


class Learning:
    """Our own scorer, which knows of the pods only what it has seen: first fit at first, then by packable capacity."""

    def __init__(self, fleet: Fleet, kinds: Sequence[Kind], nodes: Sequence[Node]) -> None:
        self._fleet, self._kinds = fleet, kinds
        self._sizes = np.array([node.gpus for node in nodes], dtype=np.int64)
        self._hosts = self._fleet.host.copy()
        self._seen: Counter[ResourceRequest] = Counter()
        self._next = float(LEARN_FROM)
        self._scorer: Scorer = FirstFit()

    def before(self, ask: ResourceRequest) -> None:
        """A pod arrives: forecast anew if enough have come since the last time."""
        if self._seen.total() >= self._next:
            self._next = self._seen.total() * LEARN_AGAIN
            demand = self.demand()
            self._scorer = PackableCapacity(demand, self._kinds, self._fleet, self._sizes, self._hosts)
        self._seen[ask] += 1

    def demand(self) -> Demand:
        """What was seen so far, and how much of it the cluster takes now."""
        wants = {ask: want_of(ask, self._kinds) for ask in self._seen}
        slots = {ask: int(loops.total_slots(self._fleet, *want)) for ask, want in wants.items()}
        return demand_of(self._seen, slots)

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one pod, or None if it fits nowhere."""
        return self._scorer.choose(fleet, want, allowed)

    def score(self, want: Want, allowed: Bools) -> float | None:
        """What `choose` goes by; 0 before the first forecast, None if the pod fits nowhere."""
        if isinstance(self._scorer, PackableCapacity):
            found = self._scorer.offer(self._fleet, want, allowed)
            return None if found is None else found[2]
        return 0.0


class Queue:
    """Pods that wait, and the cluster they wait for."""

    def __init__(self, world: World, most: int) -> None:
        self.fleet, self._kinds = fleet_of(world.nodes)
        self.scorer = Learning(self.fleet, self._kinds, world.nodes)
        self._wants = {ask: want_of(ask, self._kinds) for ask in world.asks}
        self._everywhere = np.ones(len(world.nodes), dtype=np.bool_)
        self._most = most
        self._waiting: list[tuple[int, ResourceRequest]] = []  # when it came, what it asks
        self.taken, self.waited = 0, Waited()

    def add(self, at: int, ask: ResourceRequest) -> None:
        """A pod arrives. One without GPUs waits for nothing."""
        self.scorer.before(ask)
        if ask.milli:
            self._waiting.append((at, ask))
            self.place(at, self._most)
        else:
            self._place(at, at, ask)

    def place(self, at: int, most: int) -> None:
        """Place pods, those that use the cluster best first, until no more than so many wait."""
        while len(self._waiting) > most:
            chosen = min(range(len(self._waiting)), key=self._losses().__getitem__)
            came, ask = self._waiting.pop(chosen)
            self._place(came, at, ask)

    def _losses(self) -> list[float]:
        """For each pod that waits: packable capacity lost by milli-GPU placed. What fits nowhere is dropped."""
        known: dict[ResourceRequest, float] = {}
        for _, ask in self._waiting:
            if ask not in known:
                score = self.scorer.score(self._wants[ask], self._everywhere)
                known[ask] = -np.inf if score is None else -score / ask.milli
        return [known[ask] for _, ask in self._waiting]

    def _place(self, came: int, at: int, ask: ResourceRequest) -> None:
        want = self._wants[ask]
        place = self.scorer.choose(self.fleet, want, self._everywhere)
        if place is None:
            return
        take(self.fleet, place[0], devices_of(self.fleet, *place, want.numbers), want.numbers)
        self.taken += ask.milli
        if ask.milli:
            self.waited.waits[next(name for most, name in SIZES if ask.milli <= most)].append(at - came)


def fill(world: World, most: int = WAITING) -> Waited:
    """Let all pods arrive, with so many that may wait."""
    queue, capacity, load = Queue(world, most), world.gpus * WHOLE, 0
    for at, ask in enumerate(world.arrivals):
        if load < capacity <= load + ask.milli:
            queue.waited.at_100 = 100 * queue.taken / capacity
        load += ask.milli
        queue.add(at, ask)
    queue.place(len(world.arrivals), 0)
    queue.waited.final = 100 * queue.taken / capacity
    return queue.waited


def notes(worlds: Sequence[World]) -> list[str]:
    """A line on allocation, and one on how many arrivals pods of each size wait."""
    with_queue, without = [fill(world) for world in worlds], [fill(world, 0) for world in worlds]
    texts = []
    for name in with_queue[0].waits:
        waits = sorted(wait for run in with_queue for wait in run.waits[name])
        if waits:
            p95 = waits[int(len(waits) * 0.95)]
            texts.append(f"{name} {statistics.fmean(waits):.0f} on average, {p95} p95, {waits[-1]} at most")
    at_100, final = (
        [statistics.fmean(getattr(run, when) for run in runs) for runs in (without, with_queue)]
        for when in ("at_100", "final")
    )
    return [
        f"look-ahead, apart: with up to {WAITING} pods waiting, {at_100[0]:.2f} -> {at_100[1]:.2f} % allocated at 100 %"
        f" load, {final[0]:.2f} -> {final[1]:.2f} % at 130 % ({len(worlds)} seeds)",
        f"waited, in pods that arrived meanwhile: {'; '.join(texts)}",
    ]
