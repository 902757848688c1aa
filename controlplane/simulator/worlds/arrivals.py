"""A trace's rows as a stream of arrivals: times scaled to an offered load, repeated without end, started warm.

Offered load is the GPU time that arrives per second, sum(gpus x seconds) / span, over the cluster's GPUs. The trace's
span is stretched or compressed so that it is as asked; how long a job runs stays as recorded. The trace repeats when
it ends. The seed chooses the moment at which we look in: the first of its draws at which as many GPUs would be busy
as the cluster has, and at most half as many again, had no job ever waited. What would run then is submitted at once,
oldest first, with the rest of its running time, which fills the cluster and begins a queue.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controlplane.simulator.worlds.presets import START, Arrival, Document

MOMENTS = 200  # draws of the moment to start at
FULLEST = 1.5  # times the cluster's GPUs: a longer queue than that would outlast anybody's patience


@dataclass(frozen=True, slots=True)
class Item:
    """One submission of a trace: when, for how long, how many GPUs all in all, and its job file.

    `write(name, seconds)` makes the job file for the rest of its running time.
    """

    at: float
    seconds: float
    gpus: float
    name: str
    write: Callable[[str, float], Document]


@dataclass(frozen=True)
class Recorded:
    """The items once, at their own times: for replays. `items` are in order of time."""

    items: Sequence[Item]
    actor: str

    def __iter__(self) -> Iterator[Arrival]:
        """All arrivals, the first one at the start of the clock."""
        first = self.items[0].at
        for item in self.items:
            yield Arrival(START + round(item.at - first), (item.write(item.name, item.seconds),), self.actor)


@dataclass(frozen=True)
class Repeated:
    """The items at an offered load, for ever, from a warm start. `items` are in order of time."""

    items: Sequence[Item]
    gpus: int  # in the cluster
    load: float
    seed: int
    actor: str

    @cached_property
    def period(self) -> float:
        """Seconds of the cluster's clock in which all items arrive once."""
        return sum(item.gpus * item.seconds for item in self.items) / (self.load * self.gpus)

    @cached_property
    def phase(self) -> float:
        """The moment of the period at which the clock starts."""
        moments = [draw(self.seed, f"moment {i}") * self.period for i in range(MOMENTS)]
        fullest, most = moments[0], -1.0
        for moment in moments:
            busy = self._busy(moment)
            if self.gpus <= busy <= FULLEST * self.gpus:
                return moment
            if most < busy <= FULLEST * self.gpus or most < 0:
                fullest, most = moment, busy
        return fullest

    def __iter__(self) -> Iterator[Arrival]:
        """What runs already, oldest first, and then what arrives, for ever."""
        yield from self._warm()
        cycle, first = 0, int(np.searchsorted(self._offsets, self.phase))
        while True:
            for i in range(first, len(self.items)):
                at = math.ceil(START + cycle * self.period + float(self._offsets[i]) - self.phase)
                item = self.items[i]
                yield Arrival(at, (item.write(_numbered(item.name, cycle), item.seconds),), self.actor)
            cycle, first = cycle + 1, 0

    def _warm(self) -> Iterator[Arrival]:
        for cycle, began in self._past(self.phase):
            for i in np.flatnonzero((began < 0) & (began + self._seconds > 1)):
                item = self.items[int(i)]
                rest = math.ceil(float(began[i]) + item.seconds)
                yield Arrival(START, (item.write(_numbered(item.name, cycle), rest),), self.actor)

    def _busy(self, phase: float) -> float:
        """How many GPUs would be busy at this moment had no job ever waited."""
        running = [(began < 0) & (began + self._seconds > 1) for _, began in self._past(phase)]
        return float(sum(self._gpus[mask].sum() for mask in running))

    def _past(self, phase: float) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """(cycle, when each item began, relative to the start), for the cycles that may reach over the start."""
        for cycle in range(-math.ceil(float(self._seconds.max()) / self.period) - 1, 1):
            yield cycle, cycle * self.period + self._offsets - phase

    @cached_property
    def _offsets(self) -> NDArray[np.float64]:
        """When in the period each item arrives. A trace without a span of its own arrives evenly."""
        at = np.array([item.at for item in self.items], dtype=np.float64)
        if at[-1] <= at[0]:
            return np.linspace(0, self.period, len(at), endpoint=False)
        spread: NDArray[np.float64] = (at - at[0]) / (at[-1] - at[0]) * self.period
        return spread

    @cached_property
    def _seconds(self) -> NDArray[np.float64]:
        return np.array([item.seconds for item in self.items])

    @cached_property
    def _gpus(self) -> NDArray[np.float64]:
        return np.array([item.gpus for item in self.items])


def draw(number: int, salt: str) -> float:
    """A number in [0, 1) that depends on nothing but its arguments: for rules by row, the same on every machine."""
    return zlib.crc32(f"{salt}:{number}".encode()) / 2**32


def _numbered(name: str, cycle: int) -> str:
    """The item's name in one repetition; the repetitions before the start are lettered, as they may be many."""
    if cycle == 0:
        return name
    return f"{name}-r{cycle}" if cycle > 0 else f"{name}-w{-cycle}"
