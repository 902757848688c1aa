"""Step times of workers under the noise of real trainings, one of them slower from a step on. Imports no detector.

The noise is that of jobs 1 and 4 of Alibaba's PAI: a stretch of their steps, each worker's times over its own median in
the stretch, as workers there are unlike from the start. What the job itself does in the stretch stays in it.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controlplane.benchmarks.harness.figure import BenchmarkError

Floats = NDArray[np.float64]
JOBS = (1, 4)
BEFORE, AFTER = 25, 25  # steps before and from the slow-down


@dataclass(frozen=True, slots=True)
class Stretch:
    """times: shape [BEFORE + AFTER, workers]; from step BEFORE on, worker `slow` takes `factor` times as long."""

    times: Floats
    slow: int
    factor: float


def noise(data: Path, job: int) -> Floats:
    """All steps of a job, shape [steps, workers]. Raises BenchmarkError."""
    path = data / f"training/pai/minibatch_job{job}.csv"
    if not path.exists():
        raise BenchmarkError(f"{path} is missing; set WEFT_DATA to the folder with the shared data")
    steps: dict[int, dict[int, float]] = {}
    with path.open() as file:
        for one in csv.DictReader(file):
            steps.setdefault(int(one["iteration"]), {})[int(one["worker"])] = float(one["minibatch_time_norm"])
    workers = max(len(step) for step in steps.values())
    whole = [[step[n] for n in sorted(step)] for _, step in sorted(steps.items()) if len(step) == workers]
    return np.array(whole, np.float64)


def stretches(table: Floats, rng: np.random.Generator, count: int, low: float, high: float) -> Iterator[Stretch]:
    """Draw stretches with a slow-down that is log-uniform from low to high."""
    for _ in range(count):
        start = rng.integers(len(table) - BEFORE - AFTER)
        times = table[start : start + BEFORE + AFTER]
        times = times / np.median(times, axis=0)
        slow, factor = int(rng.integers(times.shape[1])), float(np.exp(rng.uniform(np.log(low), np.log(high))))
        times[BEFORE:, slow] *= factor
        yield Stretch(times, slow, factor)
