"""Cells of notebooks that have a GPU on demand: where each runs, how long it takes, and when each GPU is busy with one.

Production's rule says where (gpushare/ondemand.py), among the GPUs of its node on which notebooks have shares. A cell
that finds its own GPU taken moves to another one of the node, which takes SWITCH_SECONDS and its memory over a link of
GIB_PER_SECOND; what is there and has to leave takes as long. Where workers of trainings compute in the time that cells
leave, each cell first waits for the token and then has a little less than the GPU, whether one is there just then or
not: so what cells do does not depend on the trainings.
"""

import heapq
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from controlplane.benchmarks.mix.cells import CELL, DUTY, OVERHEAD, Cells
from gpushare import ondemand, residency
from gpushare.gpu import WHOLE
from gpushare.residency import Gpu, Node, Notebook

SWITCH_SECONDS, GIB_PER_SECOND = 0.3, 10.0
# Beside a worker of a training, which has no guarantee, by the model of gpushare/timeline.py with kernels of 10 ms: how
# many seconds until a cell has the token, and the part of the GPU that it has then.
WAIT, BESIDE = 0.025, 0.99
GIB = 1024
Place = tuple[str, int]


@dataclass(slots=True)
class _Cell:
    work: float  # s of a whole GPU
    wanted: float
    left: float
    computes_at: float


@dataclass
class Timeline:
    """slowed: of each cell, with when it began; ends: of each GPU, when it becomes busy, idle, busy... from idle on."""

    slowed: list[tuple[float, float]] = field(default_factory=list)
    ends: dict[Place, list[float]] = field(default_factory=dict)

    def is_busy(self, place: Place, at: float) -> bool:
        """Whether a cell runs there."""
        return bisect_right(self.ends.get(place, []), at) % 2 == 1

    def next_change(self, place: Place, at: float) -> float:
        """When that is no longer so."""
        ends = self.ends.get(place, [])
        index = bisect_right(ends, at)
        return ends[index] if index < len(ends) else float("inf")

    def cells(self, begin: float, end: float) -> Cells:
        """What the cells of a time had."""
        slowed = tuple(one for at, one in self.slowed if begin <= at < end)
        busy = 0.0
        for ends in self.ends.values():
            for first, last in zip(ends[::2], [*ends[1::2], end], strict=False):
                busy += max(0.0, min(last, end) - max(first, begin))
        return Cells(slowed, busy)


def timeline(
    places: Mapping[str, Place], seed: int, until: float, memory: int, left: int, *, harvested: bool
) -> Timeline:
    """places: of the shares of the notebooks; memory: MiB of each; left: MiB of a GPU that are theirs."""
    found = Timeline()
    for node in sorted({node for node, _ in places.values()}):
        here = {name: gpu for name, (at, gpu) in places.items() if at == node}
        _Node(node, here, seed, memory, left, harvested, found).run(until)
    return found


class _Node:
    def __init__(
        self, name: str, here: Mapping[str, int], seed: int, memory: int, left: int, harvested: bool, found: Timeline
    ) -> None:
        self.name, self.harvested, self.found = name, harvested, found
        self.numbers = sorted(set(here.values()))
        gpus = tuple(Gpu(left) for _ in self.numbers)
        self.node = Node(gpus, memory * len(here))
        self.draws = {one: np.random.default_rng([seed, 21, int(one.rsplit("-", 1)[1])]) for one in sorted(here)}
        self.duty = {one: self.draws[one].uniform(*DUTY) for one in self.draws}
        self.starts: list[tuple[float, str]] = []
        self.waiting: list[str] = []
        self.cells: dict[str, _Cell] = {}
        self.now = 0.0
        for one in self.draws:
            self.node = residency.enter(self.node, Notebook(one, memory, 0))
            self._think(one)

    def run(self, until: float) -> None:
        while self.now < until:
            rates = self._rates()
            ends = {one: self._ends(one, rates[one]) for one in self.cells}
            first = min(ends, key=lambda one: (ends[one], one), default="")
            then = min(ends.get(first, until), self.starts[0][0] if self.starts else until, self._ages(), until)
            for one, cell in self.cells.items():
                cell.left -= rates[one] * max(0.0, then - max(self.now, cell.computes_at))
            self.now = then
            if first and ends[first] <= then:
                self._end(first)
            elif self.starts and self.starts[0][0] <= then < until:
                _, name = heapq.heappop(self.starts)
                work = float(self.draws[name].exponential(CELL)) + 1e-3
                self.cells[name] = _Cell(work, then, work, float("inf"))
                self.waiting.append(name)
            self.waiting = [one for one in self.waiting if not self._begin(one)]

    def _think(self, name: str) -> None:
        seconds = float(self.draws[name].exponential(CELL * (1 - self.duty[name]) / self.duty[name]))
        heapq.heappush(self.starts, (self.now + seconds, name))

    def _begin(self, name: str) -> bool:
        at = round(self.now)
        start = ondemand.choose([self.node], self.node.find(name)[1], 0, at)
        if start is None:
            return False
        cell, moved = self.cells[name], [*start.evicted, *([] if start.way == ondemand.Way.STAY else [name])]
        seconds = sum(SWITCH_SECONDS + self.node.find(one)[1].memory / GIB / GIB_PER_SECOND for one in moved)
        self.node = residency.begin(self.node, name, start.gpu, at, start.evicted)
        cell.computes_at = self.now + seconds + (WAIT if self.harvested else 0.0)
        if len(self.node.gpus[start.gpu].computing) == 1:
            self.found.ends.setdefault((self.name, self.numbers[start.gpu]), []).append(self.now)
        return True

    def _end(self, name: str) -> None:
        cell = self.cells.pop(name)
        gpu, _ = self.node.find(name)
        self.node = residency.end(self.node, name, round(self.now))
        if gpu is not None and not self.node.gpus[gpu].computing:
            self.found.ends[self.name, self.numbers[gpu]].append(self.now)
        self.found.slowed.append((cell.wanted, (self.now - cell.wanted) / cell.work))
        self._think(name)

    def _rates(self) -> dict[str, float]:
        """Of a whole GPU, by cell; 0 where it waits for one."""
        rates = dict.fromkeys(self.cells, 0.0)
        for gpu in self.node.gpus:
            loss = 1 - OVERHEAD if len(gpu.computing) > 1 else 1.0
            promised = {one.name: WHOLE // max(2, len(gpu.computing)) for one in gpu.computing}
            for one, milli in ondemand.parts(gpu, promised, round(self.now)).items():
                rates[one] = milli / WHOLE * loss * (BESIDE if self.harvested else 1.0)
        return rates

    def _ends(self, name: str, rate: float) -> float:
        cell = self.cells[name]
        return max(self.now, cell.computes_at) + max(0.0, cell.left) / rate if rate else float("inf")

    def _ages(self) -> float:
        """When the next cell is no longer young, which changes what those beside it have."""
        shared = (one for gpu in self.node.gpus if len(gpu.computing) > 1 for one in gpu.computing)
        old = (one.since + ondemand.RULES.young for one in shared)
        return min((at for at in old if at > self.now), default=float("inf"))
