"""`elasticity`: how good the plan of elastic trainings is, and how long one takes in a large cluster.

Objective: 50 random clusters of 512 GPUs of three types with 200 jobs, up to 20 configurations a job, most jobs running
(`elasticdraws.py`). The planner's own utilities, its choice against the best one, which HiGHS finds through scipy.

- `objective_ratio_to_mip`: (ours - empty) / (best - empty), the least of the 50: the sum of utilities of our plan and
  of the best one, each above that of the empty plan, in which no job has a GPU. Where HiGHS has not proved its answer
  in time, its upper bound stands for the best. Jobs that are starting are left out, as no plan may move them.
- `objective_ratio_from_one_gpu`: the same counted from the best plan with one GPU for each job at most.
- `round_p99_seconds`: a whole `Planner.plan` with 10,000 GPUs and 5,000 jobs, of 100 rounds: five clusters, each from
  a random state, in which nearly every job changes, then as trainings grow, end and come.
"""

import gc
import time
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.configurations import Shape, configurations
from autoscaler.elasticity.inputs import read_jobs, read_nodes
from autoscaler.elasticity.knapsack import NONE, Ints, Problem
from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.plan import solve
from autoscaler.elasticity.rates import rates
from autoscaler.elasticity.utility import problem
from autoscaler.planner import Planner
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.training.clusters import nodes_of
from controlplane.benchmarks.training.elasticdraws import TYPES, Parts, drawn_job, held

Floats = npt.NDArray[np.float64]

DRAWS, FIRST = 50, 1000  # seeds 0 to 4 are those of constants
SMALL = {"a100": (16, 8), "rtx": (24, 8), "t4": (48, 4)}  # 128, 192 and 192 GPUs
SMALL_JOBS, SMALL_MOST = 200, 24  # 24 GPUs: 6 configurations of two types, 8 of one
LARGE = {"a100": (250, 8), "rtx": (500, 8), "t4": (1000, 4)}
LARGE_JOBS, LARGE_MOST = 5000, 64
WORLDS, ROUNDS = 5, 20
ROUND, NOW = 60.0, 1e5  # s
NEW = 0.05  # of all jobs
ENDING = 0.01  # of all jobs, in a round
SECONDS = 20.0  # for HiGHS
GAP = 1e-7  # to which HiGHS proves an answer


def run(options: Options, progress: Progress) -> Result:
    """Solve what was drawn, then plan in the large cluster. Raises BenchmarkError where scipy is missing."""
    draws = options.repeat or DRAWS
    found = []
    for number in range(draws):
        progress(0.6 * number / draws, f"{number} of {draws} plans compared with HiGHS")
        found.append(compared(drawn_problem(FIRST + options.seeds[0] + number)))
    ratios, from_one, proved = (np.array(column) for column in zip(*found, strict=True))
    seconds: list[float] = []
    processor: list[float] = []
    changed = 0
    for world in range(WORLDS):
        progress(0.6 + 0.4 * world / WORLDS, f"{world} of {WORLDS} large clusters planned")
        took, worked, moved = rounds(FIRST + options.seeds[0] + world, options.jobs or LARGE_JOBS)
        seconds += took
        processor += worked
        changed += moved
    figures = (
        Figure("elasticity.objective_ratio_to_mip", _down(ratios.min()), "", 0.97, True),
        Figure("elasticity.objective_ratio_from_one_gpu", _down(from_one.min()), "", higher_is_better=True),
        Figure("elasticity.round_p99_seconds", round(float(np.quantile(seconds, 0.99)), 3), "s", 1.0),
    )
    notes = (
        f"{draws} clusters: ratio to the best {_spread(ratios)}; from one GPU a job {_spread(from_one)}; "
        f"{int(proved.sum())} answers of HiGHS proved, else its bound is taken",
        f"{len(seconds)} rounds: median {np.median(seconds):.3f} s, longest {max(seconds):.3f} s, processor time p99 "
        f"{np.quantile(processor, 0.99):.3f} s; of these the first of each cluster, in which most jobs change: "
        f"{max(seconds[::ROUNDS]):.3f} s at most; {changed} changes in all",
    )
    return Result(figures, notes)


def _spread(ratios: Floats) -> str:
    return f"{ratios.min():.4f} to {ratios.max():.4f}, median {np.median(ratios):.4f}"


def _down(ratio: float) -> float:
    return float(np.floor(ratio * 1e4) / 1e4)


def drawn_problem(seed: int) -> Problem:
    """What one round of the planner has to solve, in a cluster of 512 GPUs."""
    rng = np.random.default_rng(seed)
    rows = [drawn_job(rng, f"j{i}", NOW, is_new=rng.random() < NEW, most=SMALL_MOST) for i in range(SMALL_JOBS)]
    current = held(rng, rows, SMALL)
    offered = configurations(read_nodes(nodes_of(SMALL)))
    jobs = read_jobs(rows, offered.types)
    memory = Memory()
    shapes: dict[Hashable, Shape] = {
        name: shape for name, parts in current.items() if (shape := offered.shape_of(parts)) is not None
    }
    memory.observe(NOW - ROUND, jobs, {})
    memory.observe(NOW, jobs, shapes)
    return problem(NOW, offered, jobs, memory, rates(offered, jobs, [memory.jobs[job.id] for job in jobs]))


def compared(asked: Problem) -> tuple[float, float, bool]:
    """The gain of the planner's choice over that of the best one, above the empty plan and above one GPU a job; whether
    the best one is proved to be that.
    """
    asked = _without_fixed(asked)
    choice = solve(asked)
    if (asked.used(choice) > asked.room).any():
        raise BenchmarkError("The planner gave more GPUs than there are: mend autoscaler/elasticity/prices.py.")
    ours, empty = asked.value(choice), asked.value(np.full(len(choice), NONE))
    best, is_proved = highs(asked)
    one = asked.value(_chosen(asked, np.where(asked.gpus == 1, asked.utility, -np.inf)))
    return (ours - empty) / (best - empty), (ours - one) / (best - one), is_proved


def _without_fixed(asked: Problem) -> Problem:
    """The same without the jobs that have to keep what they have, nor the GPUs that these hold."""
    fixed = ~np.isfinite(asked.unserved)
    kept = np.where(fixed, asked.utility.argmax(axis=1), NONE)
    return Problem(asked.utility[~fixed], asked.unserved[~fixed], asked.gpus, asked.kind, asked.room - asked.used(kept))


def highs(asked: Problem) -> tuple[float, bool]:
    """The largest sum of utilities, and whether it is proved to be that; if not, no plan has more than it."""
    value, is_proved, _ = _milp(asked, asked.utility)
    return value, is_proved


def _chosen(asked: Problem, utility: Floats) -> Ints:
    return _milp(asked, utility)[2]


def _milp(asked: Problem, utility: Floats) -> tuple[float, bool, Ints]:
    """The bound of HiGHS, whether the choice reaches it, and the choice, [jobs]."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError as error:
        raise BenchmarkError("scipy is missing, whose HiGHS this compares with: install the extra dev.") from error
    row, column = np.nonzero(np.isfinite(utility))
    gain = utility[row, column] - asked.unserved[row]
    places = np.arange(len(row))
    once = csr_array((np.ones(len(row)), (row, places)), shape=(len(utility), len(row)))
    used = csr_array(
        (asked.gpus[column].astype(float), (asked.kind[column], places)), shape=(len(asked.room), len(row))
    )
    found = milp(
        -gain,
        integrality=np.ones(len(row)),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(once, ub=1), LinearConstraint(used, ub=asked.room)],
        options={"time_limit": SECONDS, "mip_rel_gap": GAP},
    )
    if found.x is None:
        raise BenchmarkError(f"HiGHS found no plan: {found.message}")
    taken = found.x > 0.5
    choice = np.full(len(utility), NONE, np.int64)
    choice[row[taken]] = column[taken]
    return float(asked.unserved.sum() - found.mip_dual_bound), bool(found.status == 0), choice


def rounds(seed: int, count: int) -> tuple[list[float], list[float], int]:
    """Seconds and processor seconds of each round of one large cluster, and how many jobs changed in all."""
    rng = np.random.default_rng(seed)
    jobs = [drawn_job(rng, f"j{i}", NOW, is_new=rng.random() < NEW, most=LARGE_MOST) for i in range(count)]
    current: Mapping[Any, Parts] = held(rng, jobs, LARGE)
    planner = Planner(nodes_of(LARGE))
    seconds: list[float] = []
    processor: list[float] = []
    changed = 0
    for number in range(ROUNDS):
        now = NOW + number * ROUND
        gc.collect()  # what the benchmark itself left is not the planner's
        start, worked = time.perf_counter(), time.process_time()
        plan = planner.plan(now, jobs, current)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - worked)
        changed += sum(plan.get(job["id"]) != current.get(job["id"]) for job in jobs)
        jobs = [_next(rng, job, plan.get(job["id"], []), current.get(job["id"], []), now + ROUND) for job in jobs]
        current = {job["id"]: plan[job["id"]] for job in jobs if job["id"] in plan}
    return seconds, processor, changed


def _next(rng: np.random.Generator, job: dict[str, Any], parts: Parts, before: Parts, now: float) -> dict[str, Any]:
    """The job after a round: older, known where it ran, its limit twice what it had; or another in its place."""
    if rng.random() < ENDING:
        return drawn_job(rng, f"{job['id']}'", now, is_new=True, most=LARGE_MOST)
    older = job | {"age": job["age"] + ROUND, "restarting": False}
    if not parts:
        return older
    gpus, gpu_type = sum(part for _, part in parts), parts[0][0][0]
    most = min(LARGE_MOST, max(2 * gpus, job["max_gpus"][gpu_type]))
    known = next((f for f in job["goodput"].values() if f is not None), None)
    if known is None:
        known = next(f for f in drawn_job(rng, "", now, is_new=False, most=1)["goodput"].values() if f is not None)
    return older | {
        "restarting": parts != before and job["restart_cost_s"] > ROUND,
        "max_gpus": dict.fromkeys(TYPES, most),
        "goodput": job["goodput"] | {gpu_type: known},
        "restarts": job["restarts"] + (parts != before),
    }
