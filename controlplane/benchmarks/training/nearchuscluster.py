"""`nearchus`, its cluster: elastic trainings under our planner, against FIFO with backfill, Tiresias and Optimus.

16 nodes with 4 T4 each; 25 workloads, four each of Pollux' loads 0.5, 1.0, 1.5 and realistic sizes and of Sia's philly,
five of its saturn. First the simulator has to give the completion times that Pollux' authors published for Tiresias and
Optimus, within 15 % on each workload of load 1.0, in their settings: 30 s for each start, policies without noise. Then
all is charged what each model's start was measured to take, and policies know a training only by step times with 10 %
noise and by models fitted to them.

*As deployed*: the policy decides who runs, kube-scheduler's LeastAllocated places the workers. *Packed*: on the fewest
nodes. *Ideal*: as if each always had the fewest nodes there can be. Ours places its trainings itself.

- `jct_X_percent_ci_low`: by how much ours, with history and a free batch, lowers the mean completion time: the low end
  of a 95 % bootstrap over the workloads, each the mean of three seeds. X: Tiresias as deployed and ideal, Optimus as
  deployed at 600 s, FIFO with backfill as deployed.
- `jct_no_history_percent`, `jct_half_free_percent`, `jct_batch_fixed_percent`: means against Tiresias as deployed:
  without what ended trainings taught, with a batch that may be chosen of half the trainings, and of none.
- `queue_percent_ci_low`: by how much it lowers the mean wait, over the workloads where that is more than 30 s for the
  policy compared with; the least over FIFO and Tiresias as deployed, Tiresias ideal and Optimus at 600 s, and over two
  meanings of wait: until the first start, and all time without GPUs.
- `restarts_per_job`: ours, with history and a free batch, without first starts.

The planner's constants were tried on workloads 1 and 2 of each family and seeds 0 to 4; the others are noted apart.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.training import classics, published
from controlplane.benchmarks.training.cluster16 import Outcome, Policy, Rules, simulate
from controlplane.benchmarks.training.elasticpolicy import Elastic
from controlplane.benchmarks.training.tables import Application, Submitted, pollux_workload, t4_applications, workload
from controlplane.benchmarks.training.trainings import Asked

Case = tuple[str, int]  # family and number of a workload
Floats = npt.NDArray[np.float64]

LOADS = ("0.5", "1.0", "1.5", "realistic")  # Pollux'
CASES: tuple[Case, ...] = (
    *((load, number) for load in LOADS for number in (1, 2, 3, 4)),
    *(("philly", number) for number in (1, 2, 3, 4)),
    *(("saturn", number) for number in (1, 2, 3, 4, 5)),
)
TRIED = (1, 2)  # numbers of the workloads that constants were tried on, with seeds 0 to 4
FIRST_SEED = 10
SEEDS = 3
FREE, FORGETFUL, HALF, FIXED = "history, free batch", "no history", "half free", "batch fixed"
FIFO, TIRESIAS, TIRESIAS_IDEAL = "FIFO", "Tiresias", "Tiresias ideal"
OPTIMUS, OPTIMUS_60 = "Optimus 600 s", "Optimus 60 s"
SHORT_WAIT = 30.0  # s: where a policy makes wait less on average, its wait is not compared with
RESAMPLES = 10_000
PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy and how it is played. free: the part of trainings whose batch may be chosen; seeds: that it needs."""

    policy: Callable[[], Policy]
    rules: Rules
    free: float = 0.0
    seeds: int = SEEDS


def _classic(sizing: Callable[[], classics.Sizing], placer: classics.Placer | None) -> Callable[[], Policy]:
    return lambda: classics.Sized(sizing(), placer)


def _optimus(placer: classics.Placer | None, tick: float) -> Setting:
    rules = Rules(tick=tick, is_profiled=True, is_ideal=placer is None)
    return Setting(_classic(lambda: classics.Optimus(is_spread=False), placer), rules)


OURS: Mapping[str, Setting] = {
    FREE: Setting(Elastic, Rules(is_lent=True), 1.0),
    FORGETFUL: Setting(lambda: Elastic(has_history=False), Rules(), 1.0),
    HALF: Setting(Elastic, Rules(is_lent=True), 0.5),
    FIXED: Setting(Elastic, Rules(is_lent=True)),
}
# FIFO and Tiresias ask for no expected speed: what is seen, and so the seed, changes nothing.
THEIRS: Mapping[str, Setting] = {
    FIFO: Setting(_classic(classics.Fifo, classics.spread), Rules(), seeds=1),
    "FIFO ideal": Setting(_classic(classics.Fifo, None), Rules(is_ideal=True), seeds=1),
    TIRESIAS: Setting(_classic(classics.Tiresias, classics.spread), Rules(), seeds=1),
    "Tiresias packed": Setting(_classic(classics.Tiresias, classics.packed), Rules(), seeds=1),
    TIRESIAS_IDEAL: Setting(_classic(classics.Tiresias, None), Rules(is_ideal=True), seeds=1),
    OPTIMUS: _optimus(classics.spread, 600.0),
    OPTIMUS_60: _optimus(classics.spread, 60.0),
    "Optimus 600 s ideal": _optimus(None, 600.0),
    "Optimus 60 s ideal": _optimus(None, 60.0),
}
SETTINGS: Mapping[str, Setting] = {**OURS, **THEIRS}


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one run: means over its trainings; jct, queued, idle: s."""

    jct: float
    queued: float
    idle: float
    restarts: float
    infeasible: int


Summaries = Mapping[tuple[str, Case], Summary]


def figures(options: Options, progress: Progress) -> Result:
    """Simulate all. Raises BenchmarkError where the traces are missing, or the simulator is not as published."""
    notes, told, cases = played(options, progress)
    result = judged(told, cases)
    return Result(result.figures, (*notes, *result.notes))


def played(options: Options, progress: Progress) -> tuple[list[str], Summaries, tuple[Case, ...]]:
    """What the simulator is held against, in words, each setting on each workload, and the workloads.

    Raises BenchmarkError.
    """
    if not (options.data / "training" / "pollux" / "workloads_1-4.csv").exists():
        raise BenchmarkError(
            f"{options.data} has no workloads of Pollux. Set WEFT_DATA to the folder with the shared traces."
        )
    cases = CASES if options.repeat is None else CASES[: options.repeat]
    first = FIRST_SEED + SEEDS * options.seeds[0]
    asked = [
        (name, case, first + more) for case in cases for name, one in SETTINGS.items() for more in range(one.seeds)
    ]
    told: dict[tuple[str, Case], list[Summary]] = {}
    # One thread for the algebra of each process: matrices are small, and there are as many processes as cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        checks = [pool.submit(published.checked, options.data, number) for number in published.NUMBERS]
        notes = [check.result() for check in checks]
        futures = {one: pool.submit(simulated, options.data, *one) for one in asked}
        for number, ((name, case, _), future) in enumerate(futures.items()):
            progress(number / len(futures), f"{case[0]} {case[1]}, {name}")
            told.setdefault((name, case), []).append(future.result())
    return notes, {key: _mean(runs) for key, runs in told.items()}, cases


def simulated(data: Path, name: str, case: Case, seed: int) -> Summary:
    """One workload under one setting."""
    setting = SETTINGS[name]
    submitted = submissions(data, case)
    free = np.random.default_rng([seed, len(submitted)]).random(len(submitted)) < setting.free
    asked = [Asked(one, bool(may)) for one, may in zip(submitted, free, strict=True)]
    return summary(simulate(asked, _applications(data), setting.policy(), setting.rules, seed))


def submissions(data: Path, case: Case) -> tuple[Submitted, ...]:
    """The trainings of a workload."""
    return pollux_workload(data, *case) if case[0] in LOADS else workload(data, *case)


def summary(told: Outcome) -> Summary:
    """What is kept of a run."""
    return Summary(told.mean, told.mean_queued, told.mean_idle, told.restarts_per_job, told.infeasible)


@cache
def _applications(data: Path) -> dict[str, Application]:
    return t4_applications(data)


def _mean(runs: list[Summary]) -> Summary:
    return Summary(
        float(np.mean([one.jct for one in runs])),
        float(np.mean([one.queued for one in runs])),
        float(np.mean([one.idle for one in runs])),
        float(np.mean([one.restarts for one in runs])),
        sum(one.infeasible for one in runs),
    )


def judged(told: Summaries, cases: tuple[Case, ...]) -> Result:
    """Figures of what was simulated, means of seeds."""
    fixed = {
        name: float(gains(told, cases, ours, TIRESIAS).mean())
        for name, ours in (("no_history", FORGETFUL), ("half_free", HALF), ("batch_fixed", FIXED))
    }
    found = [
        _low("jct_tiresias", gains(told, cases, FREE, TIRESIAS), 38.0),
        _low("jct_tiresias_ideal", gains(told, cases, FREE, TIRESIAS_IDEAL), 36.0),
        _low("jct_optimus", gains(told, cases, FREE, OPTIMUS), 50.0),
        _low("jct_fifo", gains(told, cases, FREE, FIFO), 54.0),
        *(
            Figure(f"nearchus.jct_{name}_percent", _down(fixed[name]), "%", goal, higher_is_better=True)
            for name, goal in (("no_history", 38.0), ("half_free", 34.0), ("batch_fixed", 22.0))
        ),
        Figure("nearchus.queue_percent_ci_low", _down(_least_wait(told, cases)), "%", 80.0, higher_is_better=True),
        Figure(
            "nearchus.restarts_per_job",
            round(float(np.mean([told[FREE, case].restarts for case in cases])), 2),
            "",
            3.5,
        ),
        Figure("nearchus.infeasible_plans", sum(one.infeasible for one in told.values()), "", 0),
    ]
    return Result(tuple(found), tuple(_notes(told, cases)))


def gains(told: Summaries, cases: tuple[Case, ...], ours: str, theirs: str) -> Floats:
    """Part of the mean completion time that is saved, [cases]."""
    return np.array([1 - told[ours, case].jct / told[theirs, case].jct for case in cases])


def waits(told: Summaries, cases: tuple[Case, ...], ours: str, theirs: str, *, is_idle: bool) -> Floats:
    """Part of the mean wait that is saved, of the cases where there is a wait. is_idle: all time without GPUs."""
    found = []
    for case in cases:
        mine, other = told[ours, case], told[theirs, case]
        wait, than = (mine.idle, other.idle) if is_idle else (mine.queued, other.queued)
        if than > SHORT_WAIT:
            found.append(1 - wait / than)
    return np.array(found)


def interval(values: Floats) -> tuple[float, float]:
    """Of the mean, 95 %, by resampling the values."""
    if not len(values):
        return 0.0, 0.0
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def _least_wait(told: Summaries, cases: tuple[Case, ...]) -> float:
    found = [
        waits(told, cases, FREE, theirs, is_idle=is_idle)
        for theirs in (FIFO, TIRESIAS, TIRESIAS_IDEAL, OPTIMUS)
        for is_idle in (False, True)
    ]
    return min(interval(values)[0] for values in found if len(values))


def _low(name: str, values: Floats, goal: float) -> Figure:
    return Figure(f"nearchus.{name}_percent_ci_low", _down(interval(values)[0]), "%", goal, higher_is_better=True)


def _down(part: float) -> float:
    return float(np.floor(part * 1e3) / 10)


def _notes(told: Summaries, cases: tuple[Case, ...]) -> Iterator[str]:
    rest = tuple(case for case in cases if case[1] not in TRIED)
    for ours in OURS:
        than = "; ".join(f"{theirs} {_shown(gains(told, cases, ours, theirs))}" for theirs in THEIRS)
        restarts = float(np.mean([told[ours, case].restarts for case in cases]))
        yield f"{ours}, {restarts:.2f} restarts a job; mean completion time lower by %: {than}"
        if rest:
            than = "; ".join(
                f"{theirs} {_shown(gains(told, rest, ours, theirs))}" for theirs in (TIRESIAS, TIRESIAS_IDEAL, OPTIMUS)
            )
            yield f"{ours}, on the {len(rest)} workloads that constants were not tried on: {than}"
        for is_idle, what in ((False, "wait until the first start"), (True, "time without GPUs")):
            than = "; ".join(f"{name} {_shown(waits(told, cases, ours, name, is_idle=is_idle))}" for name in THEIRS)
            yield f"{ours}, {what} lower by %: {than}"
    for family in dict.fromkeys(family for family, _ in cases):
        mine = [case for case in cases if case[0] == family]
        yield f"{family}, mean completion time in s: " + ", ".join(
            f"{name} {np.mean([told[name, case].jct for case in mine]):.0f}" for name in SETTINGS
        )


def _shown(values: Floats) -> str:
    if not len(values):
        return "-"
    low, high = interval(values)
    return f"{100 * values.mean():.0f} [{100 * low:.0f}, {100 * high:.0f}]"
