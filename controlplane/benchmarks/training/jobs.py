"""A simulated training: it waits, restarts and makes progress as Sia's simulator has it.

Its speed is that of the table of its placement; what others may know of it is what was seen while it ran.
"""

import math
from dataclasses import dataclass, field

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.training.goodput import Goodput, Parameters, Point, fit
from controlplane.benchmarks.training.tables import SLOWDOWN, Application, Placement, Submitted

MOST_GPUS = 64  # that a job of the simulator can use

# Fits by what they were made from: jobs of a model see the same step times.
_FITTED: dict[tuple[str, str, tuple[Point, ...]], Parameters] = {}


@dataclass(slots=True)
class Job:
    """applications: by type of GPU; gpu_type: where it holds `placement` now; restarting: s until it runs again."""

    submitted: Submitted
    applications: dict[str, Application]
    gpu_type: str | None = None
    placement: Placement = ()
    restarting: float = 0.0
    restarts: int = -1  # the first start is none
    attained_gpu_seconds: float = 0.0
    completed_at: float | None = None
    epoch: int = 0
    progress: float = 0.0
    local: int = 0
    passes: int = 0
    gradient: tuple[float, float] | None = None
    seen: dict[str, dict[Point, tuple[float, float]]] = field(default_factory=dict)
    fitted: dict[str, Parameters] = field(default_factory=dict)

    @property
    def restart_seconds(self) -> float:
        """What each start costs it."""
        return next(iter(self.applications.values())).restart_seconds

    def goodput(self, gpu_type: str, most: int | None = None) -> Goodput | None:
        """What is expected of it on this type, with a batch of at most `most`; None before it ran there."""
        parameters = self.fitted.get(gpu_type)
        if parameters is None or self.gradient is None:
            return None
        app = self.applications[gpu_type]
        local = (app.least_local, app.longest_batch)
        return Goodput(parameters, self.gradient, app.initial_batch, most or app.most_batch, local)

    def max_gpus(self, gpu_type: str) -> int:
        """Twice the GPUs that it ever had of this type."""
        app = self.applications[gpu_type]
        known = max((gpus for _, gpus, _ in self.seen.get(gpu_type, ())), default=0)
        return min(max(2 * known, 1), MOST_GPUS, app.most_batch // app.least_local)

    def place(self, gpu_type: str | None, placement: Placement) -> bool:
        """Hold this from now on; tell whether it has to start (again) for it. Another node alone costs nothing."""
        if (gpu_type, placement) == (self.gpu_type, self.placement):
            return False
        self.gpu_type, self.placement = gpu_type, placement
        if not placement:
            return False
        self._choose_batch()
        self.restarting = self.restart_seconds
        self.restarts += 1
        return True

    def run(self, at: float, seconds: float) -> None:
        """From `at` on for so long."""
        if not self.placement or self.completed_at is not None:
            return
        delay = min(self.restarting, seconds)
        self.restarting -= delay
        self.attained_gpu_seconds += delay * sum(self.placement)
        at, seconds = at + delay, seconds - delay
        while seconds > 0 and self.completed_at is None:
            rate = self._rate()
            due = float(self._application().convergence.progress[self.epoch])
            if self.progress + rate * seconds < due:
                self.progress += rate * seconds
                used = seconds
            else:
                used = min(float(round((due - self.progress) / rate)), seconds)
                self.progress = due
                self.epoch += 1
                if self.epoch >= self._application().convergence.epochs:
                    self.completed_at = at + used
            self.attained_gpu_seconds += used * sum(self.placement)
            at, seconds = at + used, seconds - used
            self._choose_batch()  # after each epoch and each round, by what has been seen until now

    def _application(self) -> Application:
        return self.applications[self._type]

    @property
    def _type(self) -> str:
        if self.gpu_type is None:
            raise BenchmarkError(f"{self.submitted.name} has no GPUs")
        return self.gpu_type

    def _rate(self) -> float:
        """Progress a second; notes what is seen by running."""
        app = self._application()
        gpus = sum(self.placement)
        batch = gpus * self.local * (self.passes + 1)
        self.gradient = squared, variance = app.convergence.gradient(batch, self.epoch)
        step, sync = app.times_of(self.placement, self.local)
        self._see((len(self.placement), gpus, self.local), (step, sync))
        gain = (variance + squared) / (variance / (batch / app.initial_batch) + squared)
        return gain / (step + (step - sync) * self.passes) / SLOWDOWN[app.model]

    def _see(self, point: Point, times: tuple[float, float]) -> None:
        seen = self.seen.setdefault(self._type, {})
        if point not in seen:
            seen[point] = times
            key = self.submitted.model, self._type, tuple(sorted(seen))
            if key not in _FITTED:
                _FITTED[key] = fit(seen)
            self.fitted[self._type] = _FITTED[key]

    def _choose_batch(self) -> None:
        app = self._application()
        nodes, gpus = len(self.placement), sum(self.placement)
        most_local = app.most_local(self.placement)
        goodput = self.goodput(self._type)
        if goodput is None:
            batch = max(app.initial_batch, app.least_local * gpus)
            share = math.ceil(batch / gpus - 1e-8)
            passes = math.ceil(share / most_local - 1e-8) - 1
            if gpus == 1 and batch > app.initial_batch:
                passes = max(1, passes)
            local = math.ceil(share / (passes + 1) - 1e-8)
        else:
            local, passes = goodput.choose(nodes, gpus, most_local)
        measured = app.most_local_of(gpus)
        local = local if measured is None else min(local, measured)
        self.passes = passes
        self.local = min(local, app.most_batch // (gpus * (passes + 1)))
