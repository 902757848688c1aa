"""Play an experiment: each policy with each seed, on 16 nodes with 4 T4, and what came of each training."""

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from controlplane.benchmarks.fromfile import sample
from controlplane.benchmarks.fromfile.document import THEIRS, WEFT, Experiment, ExperimentError, Row
from controlplane.benchmarks.training import nearchuscluster
from controlplane.benchmarks.training.cluster16 import Outcome, simulate
from controlplane.benchmarks.training.elasticpolicy import Elastic
from controlplane.benchmarks.training.nearchuscluster import FIXED, SETTINGS, Setting
from controlplane.benchmarks.training.tables import Application, Submitted, t4_applications
from controlplane.benchmarks.training.trainings import Asked

Tell = Callable[[float, str], None]  # the part that is done, 0..1, and what is going on


@dataclass(frozen=True, slots=True)
class Played:
    """One policy with one seed.

    ran: by training, the different placements and batches of a GPU with which it ran, and how many of these step times
    are interpolated between measured ones. placements, interpolated: the same of all together; between_placements: of
    these, those with a placement that was not measured at all; the others are between two batches of one that was.
    """

    policy: str
    seed: int
    outcome: Outcome
    ran: Mapping[str, tuple[int, int]]
    placements: int
    interpolated: int
    between_placements: int


@dataclass(frozen=True, slots=True)
class Line:
    """Of one policy, over all its seeds: s, or counts of a training.

    reduction: of the mean completion time against the first policy, in percent.
    """

    policy: str
    mean: float
    median: float
    p99: float
    waited: float
    restarts: float
    gpu_hours: float
    makespan: float
    reduction: float


def played(experiment: Experiment, data: Path, tell: Tell) -> list[Played]:
    """All of them. Raises ExperimentError for trainings that cannot run, BenchmarkError where data are missing."""
    submissions(experiment, data)  # what is wrong is said before anything is played
    runs = [(policy, seed) for policy in experiment.policies for seed in experiment.seeds]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small, and there is a process for each core
    found = []
    with ProcessPoolExecutor(min(len(runs), os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(one, experiment, data, policy, seed) for policy, seed in runs]
        for number, ((policy, seed), future) in enumerate(zip(runs, futures, strict=True)):
            tell(number / len(runs), f"{policy}, seed {seed}")
            found.append(future.result())
    return found


def one(experiment: Experiment, data: Path, policy: str, seed: int) -> Played:
    """One policy with one seed."""
    chosen = setting(experiment, policy)
    asked = submissions(experiment, data)
    free = np.random.default_rng([seed, len(asked)]).random(len(asked)) < (experiment.free if policy == WEFT else 0.0)
    trainings = [Asked(training, bool(may)) for training, may in zip(asked, free, strict=True)]
    models = applications(data, frozenset(training.model for training in asked))
    outcome = simulate(trainings, models, chosen.policy(), replace(chosen.rules, noise=experiment.noise), seed)
    of = {training.name: models[training.model] for training in asked}
    told = {name: _counted(of[name].is_measured(*one) for one in ran) for name, ran in outcome.ran.items()}
    every = {(of[name].model, one): of[name].is_measured(*one) for name, ran in outcome.ran.items() for one in ran}
    between = sum(placement not in models[model].measured for model, (placement, _) in every)
    return Played(policy, seed, outcome, told, *_counted(every.values()), between)


def _counted(measured: Iterable[bool]) -> tuple[int, int]:
    found = list(measured)
    return len(found), found.count(False)


def setting(experiment: Experiment, policy: str) -> Setting:
    """How a policy of the file is played: Weft's by its planner."""
    if policy != WEFT:
        return SETTINGS[THEIRS[policy]]
    ours = SETTINGS[FIXED]
    if experiment.has_history:
        return ours
    return replace(ours, policy=lambda: Elastic(has_history=False), rules=replace(ours.rules, is_lent=False))


def submissions(experiment: Experiment, data: Path) -> tuple[Submitted, ...]:
    """The trainings in the order in which they come. Raises ExperimentError, BenchmarkError."""
    if experiment.workload is not None:
        return nearchuscluster.submissions(data, experiment.workload)
    models = applications(data, frozenset(row.model for row in experiment.rows))
    found = [
        Submitted(f"{row.model}-{number}-{index}", row.model, row.at + index * row.every, row.gpus, batch)
        for number, row in enumerate(experiment.rows)
        for batch in (_batch(row, number, models[row.model]),)
        for index in range(row.count)
    ]
    return tuple(sorted(found, key=lambda training: training.at))


def _batch(row: Row, number: int, model: Application) -> int:
    """Of all its GPUs: as given, else the least with which it runs on so many."""
    least = max(model.initial_batch, model.least_local * row.gpus)
    batch = least if row.batch is None else row.batch
    if not least <= batch <= model.most_batch:
        message = f"{row.model} on {row.gpus} GPUs runs with {least} to {model.most_batch}. Write one of these."
        raise ExperimentError(f"trainings[{number}].batch: {message}")
    return batch


@cache
def applications(data: Path, models: frozenset[str]) -> dict[str, Application]:
    """By model. Raises BenchmarkError where data are missing that one needs."""
    found = {sample.MODEL: sample.application()} if sample.MODEL in models else {}
    if models - {sample.MODEL}:
        found |= t4_applications(data)
    return found


def lines(runs: Sequence[Played]) -> list[Line]:
    """What came of each policy."""
    found: list[Line] = []
    for policy in dict.fromkeys(run.policy for run in runs):
        mine = [run.outcome for run in runs if run.policy == policy]
        times = np.concatenate([list(outcome.jct.values()) for outcome in mine])
        mean = float(times.mean())
        found.append(
            Line(
                policy,
                mean,
                float(np.median(times)),
                float(np.quantile(times, 0.99)),
                float(np.mean([outcome.mean_queued for outcome in mine])),
                float(np.mean([outcome.restarts_per_job for outcome in mine])),
                float(np.mean([sum(outcome.gpu_seconds.values()) for outcome in mine])) / 3600,
                float(np.mean([outcome.makespan for outcome in mine])),
                100 * (1 - mean / found[0].mean) if found else 0.0,
            )  # fmt: skip
        )
    return found


COLUMNS = ("policy", "seed", "training", "completion_s", "queued_s", "restarts", "gpu_s", "placements", "interpolated")


def table(runs: Sequence[Played]) -> str:
    """A line of CSV for each training of each run, by COLUMNS."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        told = run.outcome
        for name, seconds in told.jct.items():
            writer.writerow((
                run.policy, run.seed, name, round(seconds, 1), round(told.queued[name], 1), told.restarts[name],
                round(told.gpu_seconds[name], 1), *run.ran[name],
            ))  # fmt: skip
    return out.getvalue()
