"""A training on like GPUs, played from event to event: it waits, starts, and makes progress by the measured tables.

Its speed is that of the table of its placement and batch, its progress that of the measured gradients. Others know of
it only what it reports while it runs: step times with an error of its own, models fitted to these, the gradients' noise
with an error as well. `Seen` is all that a policy ever gets; it holds no table.
"""

import functools
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.training.goodput import Goodput, Parameters, Point
from controlplane.benchmarks.training.mapfit import map_fit
from controlplane.benchmarks.training.tables import Application, Placement, Submitted

Floats = npt.NDArray[np.float64]

CHOSEN = 30.0  # s: a training reports, and chooses its batch anew, at ends of epochs that are so far apart at least
REPORTED = 15.0  # s of running after which a step time is known: one scrape
NOISE = 0.1  # standard deviation of the logarithm of what is seen over what is true
REFIT = 1.5  # times as many points as at the last fit, or a new placement: then a model is fitted anew
NEVER = math.inf
SHORT = 1e-6  # s: the least exchange that counts


@dataclass(frozen=True, slots=True)
class Asked:
    """What may be done with a training. is_free: its batch may be chosen; else it stays as submitted."""

    submitted: Submitted
    is_free: bool = False


@dataclass(slots=True)
class Library:
    """What trainings of one model saw, for others of it: step times by placement and batch, gradients at the start.

    Means of logarithms, each with how many there were.
    """

    points: dict[tuple[int, int], dict[int, tuple[Floats, int]]] = field(default_factory=dict)
    gradients: tuple[Floats, int] = (np.zeros(2), 0)

    def step(self, point: Point, step: float, sync: float) -> None:
        """One more, in s."""
        known = self.points.setdefault(point[:2], {})
        known[point[2]] = _mean(known.get(point[2], (np.zeros(2), 0)), (step, max(sync, SHORT)))

    def gradient(self, squared: float, variance: float) -> None:
        """One more, of a first epoch."""
        self.gradients = _mean(self.gradients, (squared, variance))

    def lent(self) -> dict[Point, tuple[float, float]]:
        """Of each placement the least and the largest batch."""
        return {
            (*shape, local): (float(np.exp(known[local][0][0])), float(np.exp(known[local][0][1])))
            for shape, known in self.points.items()
            for local in {min(known), max(known)}
        }

    def lent_gradient(self) -> tuple[float, float] | None:
        """Squared norm and variance; None where none was seen."""
        if not self.gradients[1]:
            return None
        return float(np.exp(self.gradients[0][0])), float(np.exp(self.gradients[0][1]))


def _mean(known: tuple[Floats, int], values: tuple[float, float]) -> tuple[Floats, int]:
    mean, count = known
    return mean + (np.log(values) - mean) / (count + 1), count + 1


@dataclass(slots=True)
class Seen:
    """What is known of a training from outside. initial, most: batches of all GPUs; local: of one, least and most."""

    initial: int
    most: int
    local: tuple[int, int]
    batch: int
    is_free: bool
    generator: np.random.Generator
    noise: float = NOISE
    points: dict[Point, tuple[float, float]] = field(default_factory=dict)
    shapes: set[tuple[int, int]] = field(default_factory=set)
    parameters: Parameters | None = None
    gradient: tuple[float, float] | None = None
    fitted_points: int = 0
    start: Floats | None = None
    library: Library | None = None
    lent: dict[Point, tuple[float, float]] = field(default_factory=dict)
    is_first: bool = True
    rate: "Rate | None" = None

    def borrow(self) -> None:
        """Take over what others of its model saw until now."""
        if self.library is None:
            return
        self.lent, self.gradient = self.library.lent(), self.library.lent_gradient()
        if self.lent:
            self.parameters, self.start = map_fit({}, None, self.lent)

    def step(self, point: Point, step: float, sync: float) -> None:
        """A step of so many seconds, of which it exchanged for so many, was seen with these nodes, GPUs and batch."""
        if point in self.points:
            return
        error = self._error()
        self.points[point] = step * error, sync * error
        if self.library is not None:
            self.library.step(point, step * error, sync * error)
        shape = point[:2]
        if shape not in self.shapes or len(self.points) >= REFIT * self.fitted_points:
            self.shapes.add(shape)
            self.fitted_points = len(self.points)
            self.parameters, self.start = map_fit(self.points, self.start, self.lent)
        self.rate = None

    def gradients(self, squared: float, variance: float) -> None:
        """The noise of gradients was seen."""
        self.gradient = squared, variance * self._error()
        if self.library is not None and self.is_first:
            self.library.gradient(*self.gradient)
        self.is_first = False
        self.rate = None

    def expected(self) -> "Rate | None":
        """How fast it would be elsewhere; None before it was seen to run."""
        if self.rate is None and self.parameters is not None and self.gradient is not None:
            self.rate = Rate(self)
        return self.rate

    def goodput(self) -> Goodput:
        """The model of what was seen. Only after it was seen to run."""
        if self.parameters is None or self.gradient is None:
            raise ValueError("it was not seen to run")
        return Goodput(self.parameters, self.gradient, self.initial, self.most, self.local)

    def _error(self) -> float:
        return math.exp(self.noise * self.generator.standard_normal()) if self.noise else 1.0


class Rate:
    """Useful examples per s, expected, of nodes and GPUs; asked again for the same it answers from memory."""

    def __init__(self, seen: Seen) -> None:
        self._goodput = seen.goodput()
        self._batch = None if seen.is_free else seen.batch
        self._known: dict[tuple[bytes, bytes], Floats] = {}
        self.one = float(self.examples(np.ones(1), np.ones(1))[0])

    def examples(self, nodes: Floats, gpus: Floats) -> Floats:
        """Useful examples per s."""
        key = nodes.tobytes(), gpus.tobytes()
        if key not in self._known:
            if self._batch is None:
                self._known[key] = self._goodput(nodes, gpus)
            else:
                self._known[key] = self._goodput.of_batch(nodes, gpus, self._batch)
        return self._known[key]

    def __call__(self, nodes: Floats, gpus: Floats) -> Floats:
        """Over one GPU, as `autoscaler.planner` asks it."""
        return self.examples(np.asarray(nodes, float), np.asarray(gpus, float)) / self.one


@dataclass(slots=True)
class Training:
    """at: s up to which it was played; ready: from when it runs after its last start; due: when it has to be looked at.

    queued: s without GPUs before its first start; idle: s without GPUs at all; ran: placements and batches of a GPU.
    """

    asked: Asked
    application: Application
    seen: Seen
    restart_seconds: float
    at: float
    placement: Placement = ()
    ready: float = 0.0
    changed: float = 0.0
    due: float = NEVER
    epoch: int = 0
    progress: float = 0.0
    starts: int = 0
    attained: float = 0.0
    idle: float = 0.0
    queued: float | None = None
    completed_at: float | None = None
    local: int = 0
    passes: int = 0
    pace: float = 0.0
    chosen: float = 0.0
    is_reported: bool = False
    ran: set[tuple[Placement, int]] = field(default_factory=set)

    @property
    def gpus(self) -> int:
        """How many it holds."""
        return sum(self.placement)

    def place(self, now: float, placement: Placement) -> None:
        """Hold this from now on, and start with it: the same shape on other nodes is a start as well."""
        self.advance(now)
        self.placement = placement
        self.due = NEVER
        self.changed = now
        if not placement:
            return
        if self.queued is None:
            self.queued = now - self.asked.submitted.at
        self.starts += 1
        self.ready = now + self.restart_seconds
        self.is_reported = False
        self._set_batch()

    def advance(self, now: float) -> None:
        """Play up to now, which is not beyond `due`."""
        passed = now - self.at
        if self.placement:
            self.attained += passed * self.gpus
            self.progress += self.pace * max(0.0, now - max(self.at, self.ready))
        else:
            self.idle += passed
        self.at = now

    def look(self) -> None:
        """What happens at `due`: its first report after a start, or the end of an epoch."""
        self.advance(self.due)
        end = self._epoch_end()
        if self.progress >= end * (1 - 1e-9):
            self.progress = end
            self.epoch += 1
            if self.epoch >= self.application.convergence.epochs:
                self.completed_at, self.due = self.at, NEVER
                return
        if not self.is_reported or self.at - self.chosen >= CHOSEN:
            self._report()
            self._set_batch()
        else:
            self._set_pace()

    def _epoch_end(self) -> float:
        return float(self.application.convergence.progress[self.epoch])

    def _report(self) -> None:
        self.is_reported = True
        app = self.application
        batch = self.gpus * self.local * (self.passes + 1)
        self.seen.step((len(self.placement), self.gpus, self.local), *app.times_of(self.placement, self.local))
        self.seen.gradients(*app.convergence.gradient(batch, self.epoch))

    def _set_batch(self) -> None:
        nodes, gpus, seen = len(self.placement), self.gpus, self.seen
        self.chosen = self.at
        if seen.is_free and seen.expected() is not None:
            self.local, self.passes = seen.goodput().choose(nodes, gpus, seen.local[1])
        else:
            batch = max(seen.initial, seen.local[0] * gpus) if seen.is_free else seen.batch
            self.local, self.passes = split(batch, gpus, seen.initial, seen.local[1])
        self.local = max(min(self.local, seen.most // (gpus * (self.passes + 1))), seen.local[0])
        self._set_pace()

    def _set_pace(self) -> None:
        app = self.application
        batch = self.gpus * self.local * (self.passes + 1)
        self.ran.add((self.placement, self.local))
        step, sync = app.times_of(self.placement, self.local)
        squared, variance = app.convergence.gradient(batch, self.epoch)
        gain = (variance + squared) / (variance / (batch / app.initial_batch) + squared)
        self.pace = gain / (step + (step - sync) * self.passes)
        begins = max(self.at, self.ready)
        self.due = begins + (self._epoch_end() - self.progress) / self.pace
        if not self.is_reported:
            self.due = min(self.due, self.ready + REPORTED)


def split(batch: int, gpus: int, initial: int, most_local: int) -> tuple[int, int]:
    """Batch of a GPU in one pass, and passes besides the last one, for this batch of all GPUs."""
    share = math.ceil(batch / gpus - 1e-8)
    passes = math.ceil(share / most_local - 1e-8) - 1
    if gpus == 1 and batch > initial:
        passes = max(1, passes)
    return math.ceil(share / (passes + 1) - 1e-8), passes


def shape_of(gpus: int, of_node: int) -> Placement:
    """As few nodes as hold so many GPUs."""
    whole, rest = divmod(gpus, of_node)
    return turned((of_node,) * whole + ((rest,) if rest else ()))


@functools.cache
def turned(placement: Placement) -> Placement:
    """A placement as the tables name it: nodes in a ring, begun where that gives the least."""
    return min((placement[i:] + placement[:i] for i in range(len(placement))), default=())
