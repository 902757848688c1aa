"""Trainings with one planted bottleneck over measured step times, and with what looks like one. Imports no detector.

A training takes its step and exchange time from a row of the T4 tables: for the network a row on several nodes whose
exchange is at least a quarter of the step, for all others one where it is at most 12 %. Then one thing is planted:

- cpu, storage: input takes 1.02..3 times the step; what is beyond the step is waited for
- ps: an exchange with parameter servers of .4..2 times the step
- small: an overhead of 1.7..5 times the computation, in which the GPU idles
- straggler: one worker computes 1.2..3 times as long, and the others wait for it
- network, healthy: nothing

All factors are log-uniform: mild cases are the frequent ones. Beside it, independently: in 30 % of trainings the CPU
is near its limit with up to .4 of its periods throttled, to no harm; in 30 % neighbours add .05..4 to the NIC; in 20 %
they add .2..7 to the disk; SM activity is .45..1.05 of what it would be. 4 % of windows begin a burst of one or two (a
checkpoint or an evaluation), 3 % of scrapes are lost, and every part of the step and every level has log-normal noise
that is correlated from window to window (AR(1), .5). Workers differ from one another by half of that noise.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controlplane.benchmarks.harness.figure import BenchmarkError

Floats = NDArray[np.float64]
CLASSES = ("cpu", "storage", "network", "ps", "small", "straggler")
HEALTHY = "healthy"
TABLE = "training/pollux/profile_placements.csv"
CORRELATION = 0.5
LEVELS = ("cpu", "throttled", "disk", "nic", "sm")
LITTLE = 0.01  # of a step: what a healthy job waits for input


@dataclass(frozen=True, slots=True)
class Row:
    """A measured job: seconds of a step, and of its exchange."""

    model: str
    nodes: int
    workers: int
    step: float
    sync: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What one window shows. step, wait, sync: s of each worker; the rest 0..1; server: None without one."""

    step: Floats
    wait: Floats
    sync: Floats
    sm: Floats
    cpu: float
    throttled: float
    disk: float
    nic: float
    server: float | None


@dataclass(frozen=True, slots=True)
class Planted:
    """One training, without noise; times in seconds, levels 0..1."""

    kind: str
    row: Row
    compute: Floats  # s, of each worker
    sync: float
    wait: float
    overhead: float
    base: dict[str, float]  # the levels without noise
    noise: float

    @property
    def step(self) -> float:
        """The whole step without noise, s."""
        return float(self.compute.max()) + self.sync + self.wait + self.overhead

    @property
    def removable(self) -> float:
        """The part of the step, 0..1, that goes when what was planted does."""
        return 1.0 - self.relieved().step / self.step

    def relieved(self) -> "Planted":
        """The same training without what was planted; a healthy one as it is."""
        return {
            "cpu": lambda: replace(self, wait=LITTLE * self.row.step),
            "storage": lambda: replace(self, wait=LITTLE * self.row.step),
            "network": lambda: replace(self, sync=0.2 * self.sync),  # on one node a fifth of the exchange is left
            "ps": lambda: replace(self, sync=self.row.sync),
            "small": lambda: replace(self, overhead=0.0),
            "straggler": lambda: replace(self, compute=np.full_like(self.compute, self.compute.min())),
        }.get(self.kind, lambda: self)()


def rows(data: Path, part: int | None = None) -> tuple[Row, ...]:
    """The measured rows; of two halves one, if `part` is 0 or 1. Raises BenchmarkError."""
    if not (data / TABLE).exists():
        raise BenchmarkError(f"{data / TABLE} is missing; set WEFT_DATA to the folder with the shared data")
    with (data / TABLE).open() as file:
        found = [
            Row(one["model"], int(one["num_nodes"]), int(one["num_replicas"]),
                float(one["step_time_s"]), float(one["sync_time_s"]))
            for one in csv.DictReader(file)
        ]  # fmt: skip
    return tuple(found if part is None else found[part::2])


def plant(kind: str, table: Sequence[Row], rng: np.random.Generator, noise: float) -> Planted:
    """Draw one training of this kind. The model first, so that one with few rows is as frequent as the others."""
    fitting = [row for row in table if _fits(kind, row)]
    models = sorted({row.model for row in fitting})
    model = models[rng.integers(len(models))]
    mine = [row for row in fitting if row.model == model]
    row = mine[rng.integers(len(mine))]
    alone = row.step - row.sync
    compute, sync, wait, overhead = np.full(row.workers, alone), row.sync, LITTLE * row.step, 0.0
    base = _levels(rng, row, sync / row.step)
    if kind in ("cpu", "storage"):
        wait = (_between(rng, 1.02, 3.0) - 1.0) * row.step
        saturated = {"cpu": rng.uniform(0.95, 1.0), "throttled": rng.uniform(0.2, 0.7)}
        base |= saturated if kind == "cpu" else {"disk": rng.uniform(0.85, 1.0)}
    elif kind == "ps":
        sync += _between(rng, 0.4, 2.0) * row.step
        base |= {"server": rng.uniform(0.3, 1.0)}
    elif kind == "small":
        overhead = _between(rng, 1.7, 5.0) * alone
    elif kind == "straggler":
        compute[rng.integers(row.workers)] *= _between(rng, 1.2, 3.0)
    return Planted(kind, row, compute, sync, wait, overhead, base, noise)


def _fits(kind: str, row: Row) -> bool:
    share = row.sync / row.step
    if kind == "network":
        return row.nodes > 1 and share >= 0.25
    return share <= 0.12 and (kind != "straggler" or row.workers > 1)


def _levels(rng: np.random.Generator, row: Row, share: float) -> dict[str, float]:
    """Levels of a healthy job with what neighbours and harmless throttling add."""
    own = share * rng.uniform(0.6, 1.0) if row.nodes > 1 else 0.0
    base = {"cpu": rng.uniform(0.2, 0.75), "throttled": rng.uniform(0.0, 0.08), "disk": rng.uniform(0.02, 0.3)}
    base |= {"nic": own + 0.01, "sm": 0.95 * rng.uniform(0.45, 1.05)}
    if rng.random() < 0.3:
        base |= {"cpu": rng.uniform(0.92, 1.0), "throttled": rng.uniform(0.15, 0.4)}
    if rng.random() < 0.3:
        base["nic"] += rng.uniform(0.05, 0.4)
    if rng.random() < 0.2:
        base["disk"] += rng.uniform(0.2, 0.7)
    return base


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def correlated(rng: np.random.Generator, count: int, size: int, deviation: float) -> Floats:
    """Log-normal factors with AR(1) noise, shape [count, size]; the first axis is time."""
    fresh = rng.normal(0.0, deviation, (count, size))
    kept = math.sqrt(1 - CORRELATION**2)
    for at in range(1, count):
        fresh[at] = CORRELATION * fresh[at - 1] + kept * fresh[at]
    return np.asarray(np.exp(fresh), np.float64)


class Watched:
    """A training's noise in each of so many windows: under it, it shows what it would, changed or not."""

    def __init__(self, planted: Planted, rng: np.random.Generator, windows: int) -> None:
        workers, noise = planted.row.workers, planted.noise
        self._common = correlated(rng, windows, 4, noise)  # computation, exchange, input, overhead
        self._own = correlated(rng, windows, workers, noise / 2)
        self._levels = {name: correlated(rng, windows, 1, noise)[:, 0] for name in sorted((*LEVELS, "server"))}
        self._activity = correlated(rng, windows, workers, noise)
        self._bursts = _bursts(rng, windows)
        self._lost = rng.random(windows) < 0.03

    def sample(self, planted: Planted, at: int) -> Sample | None:
        """What a window shows of the training as it is now; None is a scrape that was lost."""
        if self._lost[at]:
            return None
        common, workers = self._common[at], planted.row.workers
        burst, part = self._bursts[at]
        extra = part * planted.step
        compute = planted.compute * common[0] * self._own[at]
        exchange = planted.sync * common[1]
        wait = planted.wait * common[2] + (extra if burst == "wait" else 0.0)
        overhead = planted.overhead * common[3] + (extra if burst == "overhead" else 0.0)
        slowest = float(compute.max())
        step = slowest + exchange + wait + overhead
        told = {name: min(value * self._levels[name][at], 1.0) for name, value in planted.base.items()}
        return Sample(
            np.full(workers, step), np.full(workers, wait), exchange + slowest - compute,
            np.minimum(planted.base["sm"] * self._activity[at] * (compute / step), 1.0),
            told["cpu"], told["throttled"], min(told["disk"] + (0.5 if extra else 0.0), 1.0), told["nic"],
            told.get("server"),
        )  # fmt: skip


def _bursts(rng: np.random.Generator, windows: int) -> list[tuple[str, float]]:
    """For each window what it lasts longer by: input or overhead, and the part of a step."""
    found: list[tuple[str, float]] = []
    while len(found) < windows:
        if rng.random() >= 0.04:
            found.append(("", 0.0))
            continue
        kind = ("wait", "overhead")[rng.integers(2)]
        found += [(kind, rng.uniform(0.2, 1.0)) for _ in range(int(rng.integers(1, 3)))]
    return found[:windows]
