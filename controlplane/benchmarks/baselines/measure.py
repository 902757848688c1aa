"""Further baselines and parts of ours, played on the workloads of `nearchus` as its own settings are.

*Ours* is the setting with history and a free batch. All is charged what a start takes, and no policy sees a table. Each
comparison is by workload, the mean of the seeds, with a 95 % bootstrap over the workloads.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.baselines.settings import PLAYED
from controlplane.benchmarks.harness.figure import Options, Progress
from controlplane.benchmarks.training.cluster16 import simulate
from controlplane.benchmarks.training.nearchuscluster import (
    FIRST_SEED,
    PROCESSES,
    SEEDS,
    Case,
    Summaries,
    Summary,
    submissions,
    summary,
)
from controlplane.benchmarks.training.tables import Application, t4_applications
from controlplane.benchmarks.training.trainings import Asked

Floats = npt.NDArray[np.float64]


def played(options: Options, cases: Sequence[Case], progress: Progress) -> dict[tuple[str, Case], Summary]:
    """Each setting on each of these workloads. Raises BenchmarkError where the traces are missing."""
    first = FIRST_SEED + SEEDS * options.seeds[0]
    asked = [(name, case, first + more) for case in cases for name, one in PLAYED.items() for more in range(one.seeds)]
    told: dict[tuple[str, Case], list[Summary]] = {}
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        futures = {one: pool.submit(simulated, options.data, *one) for one in asked}
        for number, ((name, case, _), future) in enumerate(futures.items()):
            progress(number / len(futures), f"{case[0]} {case[1]}, {name}")
            told.setdefault((name, case), []).append(future.result())
    return {key: mean(runs) for key, runs in told.items()}


def simulated(data: Path, name: str, case: Case, seed: int) -> Summary:
    """One workload under one setting; the same trainings may choose their batch as in the figures' runs."""
    setting, submitted = PLAYED[name], submissions(data, case)
    free = np.random.default_rng([seed, len(submitted)]).random(len(submitted)) < setting.free
    asked = [Asked(one, bool(may)) for one, may in zip(submitted, free, strict=True)]
    return summary(simulate(asked, _applications(data), setting.policy(), setting.rules, seed))


def mean(runs: Sequence[Summary]) -> Summary:
    """Of the seeds of one workload; plans that could not be are added up."""
    jct, queued, idle, restarts, _ = (float(value) for value in np.mean([astuple(one) for one in runs], axis=0))
    return Summary(jct, queued, idle, restarts, sum(one.infeasible for one in runs))


def ratios(told: Summaries, cases: Sequence[Case], name: str, to: str) -> Floats:
    """Mean completion time over that of another setting, [cases]."""
    return np.array([told[name, case].jct / told[to, case].jct for case in cases])


@cache
def _applications(data: Path) -> dict[str, Application]:
    return t4_applications(data)
