"""Notebooks on GPUs, event by event: cells begin, wait, share a GPU's time and end; users think and go on.

A policy says where a cell runs and how long it takes to get there, never how long the cell is. Cells of one GPU share
its time by the parts that the policy gives them; where there are several they lose the part LOSS of it together.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.benchmarks.notebooks.sessions import Cell

TICK = 60.0  # s: so often a policy is asked what to park
ENDS, WANTS, READY, LOOK, PARK = range(5)  # what happens; at the same time in this order


@dataclass(frozen=True, slots=True)
class Seen:
    """What a policy knows of a notebook whose user runs a cell. idle_since: s; at: now."""

    notebook: str
    memory: int
    idle_since: float
    is_first: bool  # it has only been created: its pod starts whatever the policy is


@dataclass(frozen=True, slots=True)
class Given:
    """The GPU by its index in the cluster. seconds: until the cell can compute there; restarts: its pod started."""

    gpu: int
    seconds: float
    restarts: bool


class Policy(Protocol):
    """loss: of the GPU's time where cells share it. may_free: whether a cell's end can let one that waits begin."""

    loss: float

    def begin(self, seen: Seen, at: float) -> Given | None: ...  # noqa: D102
    def end(self, notebook: str, at: float) -> None: ...  # noqa: D102
    def delete(self, notebook: str, at: float) -> None: ...  # noqa: D102
    def tick(self, at: float) -> None: ...  # noqa: D102

    def parts(self, gpu: int, cells: Mapping[str, float], at: float) -> tuple[dict[str, float], float | None]:
        """The part of the GPU for each cell, by since when it runs; and when these change, None: with the next cell."""
        ...


@dataclass(frozen=True, slots=True)
class Lived:
    """slowed: of each cell, from the user's wish to its end over what it takes alone. waited: s for a GPU.

    long_slowed: of the cells of an hour and more. busy: the part of the GPUs' time in which one computed.
    """

    slowed: tuple[float, ...]
    waited: tuple[float, ...]
    long_slowed: tuple[float, ...]
    busy: float


@dataclass(slots=True)
class _Place:
    cells: Iterator[Cell]
    cell: Cell
    wanted: float = 0.0
    idle_since: float = 0.0
    gpu: int = -1


@dataclass(slots=True)
class _Gpu:
    left: dict[int, float] = field(default_factory=dict)  # place -> s of the whole GPU that its cell still needs
    since: dict[str, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    at: float = 0.0
    version: int = 0


class Life:
    """So many places for notebooks on so many GPUs, until `end`; what begins before `warm` is not counted."""

    def __init__(self, places: Sequence[Iterator[Cell]], gpus: int, policy: Policy, warm: float, end: float) -> None:
        """Cells of each place, from time 0 on."""
        self._policy, self._warm, self._end = policy, warm, end
        self._gpus = [_Gpu() for _ in range(gpus)]
        self._places = [_Place(cells, next(cells)) for cells in places]
        self._events: list[tuple[float, int, int, int]] = [
            (one.cell.gap, WANTS, place, 0) for place, one in enumerate(self._places)
        ]
        heapq.heapify(self._events)
        self._queue: deque[int] = deque()
        self._slowed: list[float] = []
        self._long: list[float] = []
        self._waited: list[float] = []
        self._busy = 0.0

    def run(self) -> Lived:
        """Play it to its end."""
        heapq.heappush(self._events, (TICK, PARK, 0, 0))
        does: tuple[Callable[[float, int, int], None], ...] = (
            self._ends, self._wants, self._ready, self._look, self._park,
        )  # fmt: skip
        while self._events:
            at, kind, number, version = heapq.heappop(self._events)
            if at >= self._end:
                break
            does[kind](at, number, version)
        self._count_unfinished()
        time = (self._end - self._warm) * len(self._gpus)
        return Lived(tuple(self._slowed), tuple(self._waited), tuple(self._long), self._busy / time)

    def _wants(self, at: float, number: int, _version: int) -> None:
        self._places[number].wanted = at
        if not self._try(at, number):  # what waits has been tried whenever something became free
            self._queue.append(number)

    def _try(self, at: float, number: int) -> bool:
        place = self._places[number]
        cell = place.cell
        given = self._policy.begin(Seen(cell.notebook, cell.memory, place.idle_since, cell.is_first), at)
        if given is None:
            return False
        place.gpu = given.gpu
        if given.restarts and at >= self._warm:  # also of one that has waited since before
            self._waited.append(at - place.wanted)
        if given.seconds:
            heapq.heappush(self._events, (at + given.seconds, READY, number, 0))
        else:
            self._ready(at, number, 0)
        return True

    def _ready(self, at: float, number: int, _version: int) -> None:
        place = self._places[number]
        gpu = self._gpus[place.gpu]
        self._advance(gpu, at)
        gpu.left[number] = place.cell.length
        gpu.since[place.cell.notebook] = at
        self._share(place.gpu, at)

    def _look(self, at: float, number: int, version: int) -> None:
        if self._gpus[number].version == version:
            self._advance(self._gpus[number], at)
            self._share(number, at)

    def _ends(self, at: float, number: int, version: int) -> None:
        place = self._places[number]
        gpu = self._gpus[place.gpu]
        if gpu.version != version or number not in gpu.left:
            return
        self._advance(gpu, at)
        cell = place.cell
        del gpu.left[number], gpu.since[cell.notebook]
        self._share(place.gpu, at)
        self._tell(place, at)
        place.idle_since = at
        place.cell = next(place.cells)
        if place.cell.notebook != cell.notebook:
            self._policy.delete(cell.notebook, at)
        else:
            self._policy.end(cell.notebook, at)
        heapq.heappush(self._events, (at + place.cell.gap, WANTS, number, 0))
        self._serve(at)

    def _park(self, at: float, _number: int, _version: int) -> None:
        self._policy.tick(at)
        self._serve(at)
        heapq.heappush(self._events, (at + TICK, PARK, 0, 0))

    def _serve(self, at: float) -> None:
        while self._queue and self._try(at, self._queue[0]):
            self._queue.popleft()

    def _advance(self, gpu: _Gpu, at: float) -> None:
        passed = at - gpu.at
        if gpu.left and passed:
            for number, rate in gpu.rates.items():
                gpu.left[number] -= rate * passed
            self._busy += max(0.0, at - max(gpu.at, self._warm))
        gpu.at = at

    def _share(self, index: int, at: float) -> None:
        gpu = self._gpus[index]
        gpu.version += 1
        if not gpu.left:
            gpu.rates = {}
            return
        if len(gpu.left) == 1:
            (number,) = gpu.left
            gpu.rates = {number: 1.0}
            heapq.heappush(self._events, (at + gpu.left[number], ENDS, number, gpu.version))
            return
        parts, changes = self._policy.parts(index, gpu.since, at)
        whole = 1.0 - self._policy.loss
        gpu.rates = {number: whole * parts[self._places[number].cell.notebook] for number in gpu.left}
        soonest, first = min((gpu.left[number] / rate, number) for number, rate in gpu.rates.items())
        heapq.heappush(self._events, (at + max(0.0, soonest), ENDS, first, gpu.version))
        if changes is not None:
            heapq.heappush(self._events, (changes, LOOK, index, gpu.version))

    def _tell(self, place: _Place, at: float) -> None:
        if place.wanted >= self._warm:
            slowed = (at - place.wanted) / place.cell.length
            self._slowed.append(slowed)
            if place.cell.length >= 3600.0:
                self._long.append(slowed)

    def _count_unfinished(self) -> None:
        """A cell that is not done when all ends counts if it has taken longer than alone: by that much at least."""
        running = {number for gpu in self._gpus for number in gpu.left}
        for number in running | set(self._queue):
            place = self._places[number]
            if self._end - place.wanted > place.cell.length:
                self._tell(place, self._end)
        self._waited += [
            self._end - self._places[n].wanted for n in self._queue if self._places[n].wanted >= self._warm
        ]
