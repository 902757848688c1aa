"""`sia`: trainings under our planner and under Sia (SOSP'23), in a simulator with Sia's semantics.

Sia's own workloads philly 1 to 4 (160 jobs each) on its default cluster: 6 nodes with 4 T4, 3 with 8 RTX, 2 with 8
A100; rounds of 60 s. Policies know of a job what Sia lets them know: models fitted to what was seen of it, never the
table of step times (`rounds.py`).

- `jct_ratio_to_sia`: our mean completion time over Sia's, the mean over the four. Sia's is the lower of two: what Sia's
  own simulator gave, and our re-coded Sia (`sia.py`) in this simulator. Where the two means differ by more than 3 % on
  any of the four, the simulator is wrong, and there are no figures.
- `p99_ratio_to_sia`: the same of the 99th percentile of completion times.
- `restarts_per_job`: ours, without first starts, the mean over the four.
- `infeasible_plans`: ours that asked for GPUs that are not there or that the job may not have, over all workloads.

The planner's constants were chosen on Sia's workloads saturn and rate_20 only. All jobs of a model do equal work in
these workloads, which flatters a planner that learns from finished jobs what is usual: its figures without that are
noted too, and so are other families, among them a part of those that constants were chosen on.
"""

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from autoscaler.planner import Planner
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.training.clusters import nodes_of
from controlplane.benchmarks.training.rounds import NODES, Forgetful, Policy, Told, simulate
from controlplane.benchmarks.training.sia import Sia
from controlplane.benchmarks.training.tables import applications, workload

Case = tuple[str, int]  # family and number of a workload

JUDGED: tuple[Case, ...] = tuple(("philly", number) for number in (1, 2, 3, 4))
BESIDE: tuple[Case, ...] = (
    ("newtrace", 1), ("rate_10", 1), ("rate_20", 1), ("rate_30", 1), ("rate_40", 1), ("rate_50", 1), ("saturn", 1),
)  # fmt: skip
CHOSEN_ON = ("saturn", "rate_20")  # the planner's constants
# Mean and 99th percentile in h, and restarts of a job: Sia's own simulator, one run of each workload.
PUBLISHED: Mapping[Case, tuple[float, float, float]] = {
    ("philly", 1): (0.532, 8.06, 4.21),
    ("philly", 2): (0.736, 9.27, 4.46),
    ("philly", 3): (0.577, 4.09, 4.07),
    ("philly", 4): (0.695, 10.69, 4.34),
}
ALLOWED = 0.03  # of the mean, between Sia's simulator and this one
HOUR = 3600.0
PROCESSES = 2


def run(options: Options, progress: Progress) -> Result:
    """Simulate all; raises BenchmarkError where the traces are missing, or the simulator is not Sia's."""
    if not (options.data / "training" / "sia" / "workloads.csv").exists():
        raise BenchmarkError(
            f"{options.data} has no workloads of Sia. Set WEFT_DATA to the folder with the shared traces."
        )
    beside = BESIDE if options.repeat is None else BESIDE[: options.repeat]
    asked = [(policy, *case) for case in (*JUDGED, *beside) for policy in ("sia", "ours")]
    asked += [("no history", *case) for case in JUDGED]
    told: dict[tuple[str, str, int], Told] = {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        futures = {one: pool.submit(simulated, options.data, *one) for one in asked}
        for number, (one, future) in enumerate(futures.items()):
            progress(number / len(futures), f"{one[1]} {one[2]}, {one[0]}")
            told[one] = future.result()
    return judged(told, beside)


def simulated(data: Path, policy: str, family: str, number: int) -> Told:
    """One workload under one policy."""
    made: Policy = Sia(NODES) if policy == "sia" else Planner(nodes_of(NODES))
    if policy == "no history":
        made = Forgetful(made)
    return simulate(workload(data, family, number), applications(data, tuple(NODES)), NODES, made)


def judged(told: Mapping[tuple[str, str, int], Told], beside: tuple[Case, ...]) -> Result:
    """Figures of what was simulated. Raises BenchmarkError where the simulator is not Sia's."""
    for case in JUDGED:
        published = PUBLISHED[case][0]
        mean = told["sia", *case].mean / HOUR
        if abs(mean / published - 1) > ALLOWED:
            raise BenchmarkError(
                f"The simulator is not Sia's: its mean completion time of {case[0]} {case[1]} is {published} h, here "
                f"{mean:.3f} h. Find out why in controlplane/benchmarks/training before any figure is believed."
            )
    ratios = np.array([_ratios(told, case, "ours") for case in JUDGED])
    forgetful = np.array([_ratios(told, case, "no history") for case in JUDGED])
    restarts = float(np.mean([told["ours", *case].restarts_per_job for case in JUDGED]))
    infeasible = sum(one.infeasible for (policy, _, _), one in told.items() if policy != "sia")
    figures = (
        Figure("sia.jct_ratio_to_sia", _up(ratios[:, 0].mean()), "x", 0.95),
        Figure("sia.p99_ratio_to_sia", _up(ratios[:, 1].mean()), "x", 1.0),
        Figure("sia.restarts_per_job", round(restarts, 2), "", 3.5),
        Figure("sia.infeasible_plans", infeasible, "", 0),
    )
    notes = [_note(told, case) for case in (*JUDGED, *beside)]
    notes.append(
        f"without what finished jobs taught: mean {forgetful[:, 0].mean():.3f} x, p99 {forgetful[:, 1].mean():.3f} x"
    )
    return Result(figures, tuple(notes))


def _up(ratio: float) -> float:
    return float(np.ceil(ratio * 1e3) / 1e3)


def _ratios(told: Mapping[tuple[str, str, int], Told], case: Case, policy: str) -> tuple[float, float]:
    """Of the mean and the 99th percentile, each to the lower one of the two figures of Sia that there are."""
    ours, sia = told[policy, *case], told["sia", *case]
    mean, late = sia.mean, sia.quantile(0.99)
    if case in PUBLISHED:
        mean, late = min(mean, PUBLISHED[case][0] * HOUR), min(late, PUBLISHED[case][1] * HOUR)
    return ours.mean / mean, ours.quantile(0.99) / late


def _note(told: Mapping[tuple[str, str, int], Told], case: Case) -> str:
    mean, late = _ratios(told, case, "ours")
    known = f"; Sia's own {PUBLISHED[case]}" if case in PUBLISHED else ""
    used = ", constants were chosen on this family" if case[0] in CHOSEN_ON else ""
    both = "; ".join(f"{policy} {_described(told[policy, *case])}" for policy in ("ours", "sia"))
    return f"{case[0]} {case[1]}{used}: mean {mean:.3f} x, p99 {late:.3f} x; {both}{known}"


def _described(told: Told) -> str:
    return (
        f"mean {told.mean / HOUR:.3f} p50 {told.quantile(0.5) / HOUR:.3f} p99 {told.quantile(0.99) / HOUR:.2f} "
        f"makespan {told.makespan / HOUR:.2f} h, {told.restarts_per_job:.2f} restarts a job"
    )
