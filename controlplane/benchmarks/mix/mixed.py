"""`mixed`: the mix with notebooks on demand and harvest, against the same baselines as `training`.

The world of `training` (measure.py). Ours has one configuration for all sets: in addition to what it has there, cells
take a GPU of their node when they begin (gpushare/ondemand.py), eight notebooks on four GPUs of one node, and trainings
compute in what the cells leave (scheduler/preemption/harvest.py). It is also what makes the shortest makespan of all
settings of ours that were tried, so the keys of both kinds are about the same runs.

- `makespan_ratio_ci_low`, `..._tuned`: native Kubernetes' makespan over ours, as in `training`; `..._gang`, `_binpack`,
  `_kueue`, `_edragon`: of these. `jct_percent_ci_low` likewise. Each is the worst of the sets.
- `late_percent_max`: requests that waited longer than 0.1 s, mean over seeds, of the worst set.
- `cell_slowdown_p95`: of cells, from the wish to the end over what they take alone, mean over seeds, of the worst set.
- `utilisation_points`: percent of all GPUs' time in which they compute, ours less native's, the low end, worst set.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.mix import measure, runs
from controlplane.benchmarks.mix.draws import SETS
from controlplane.benchmarks.mix.measure import All, down, interval, of, paired, play_all, seeds_of
from controlplane.benchmarks.mix.runs import Key

OURS = "ours, harvest"
GOALS: Mapping[str, tuple[str, float]] = {  # the key's end -> the baseline, and how many times as long it is to take
    "": ("native", 2.85),
    "_tuned": ("native", 3.0),
    "_gang": ("gang", 2.8),
    "_binpack": ("binpack", 2.2),
    "_kueue": ("kueue-like", 2.3),
    "_edragon": ("edragon", 1.85),
}
BASELINES = tuple(dict.fromkeys(policy for policy, _ in GOALS.values()))
BESIDE = (
    "ours, on demand", "ours", "binpack, hpa", "native, pool", "gang, pool", "binpack, pool", "edragon, pool",
)  # fmt: skip
CURVE = ("native", "binpack", "edragon", OURS)


def run(options: Options, progress: Progress) -> Result:
    """Play all. `--repeat` takes fewer seeds. Raises BenchmarkError where the tables are missing."""
    seeds = seeds_of(options)
    return judged(play_all(options, list(wanted(seeds, seeds[: runs.FEW])), runs.told, progress))


def wanted(seeds: Sequence[int], few: Sequence[int]) -> Iterator[Key]:
    """All runs. few: the seeds of what stands beside the figure."""
    yield from (Key(*cell) for cell in product(SETS, (OURS, *BASELINES), seeds))
    yield from (Key(*cell) for cell in product(SETS, BESIDE, few))
    yield from (Key(*cell) for cell in product(SETS, CURVE, few[:1], runs.CROWDING))


def judged(found: All) -> Result:
    """Figures and notes of what was played."""
    return Result(figures(found), tuple(notes(found)))


def figures(found: All, sets: Sequence[str] = SETS) -> tuple[Figure, ...]:
    """Each the worst of these sets."""
    some = [
        Figure(
            f"mixed.makespan_ratio_ci_low{end}",
            down(min(_low_ratio(found, which, policy) for which in sets)),
            "x",
            goal,
            higher_is_better=True,
        )
        for end, (policy, goal) in GOALS.items()
    ]
    gains = [interval(measure.gain(found, which, "native", OURS))[0] for which in sets]
    late = max(float(np.mean([told.late for told in of(found, which, OURS)])) for which in sets)
    slowed = max(float(np.mean([told.slowed for told in of(found, which, OURS)])) for which in sets)
    points = [interval(np.array([100 * (b.used - a.used) for a, b in _pairs(found, which)]))[0] for which in sets]
    some += [
        Figure("mixed.jct_percent_ci_low", down(100 * min(gains), 1), "%", 57.0, higher_is_better=True),
        Figure("mixed.late_percent_max", round(late, 3), "%", 0.1),
        Figure("mixed.cell_slowdown_p95", round(slowed, 3), "x", 1.10),
        Figure("mixed.utilisation_points", down(min(points), 1), "points", 20.0, higher_is_better=True),
    ]
    return tuple(some)


def notes(found: All) -> Iterator[str]:
    """One line each, with the intervals; where ours is level or behind, a line says so."""
    seeds = sorted({key.seed for key in found})
    yield f"seeds {seeds[0]} to {seeds[-1]}; ratios of makespan and savings of mean completion time are ours' against"
    for policy in (*BASELINES, *BESIDE):
        yield f"{policy}: " + "; ".join(measure.shown(found, which, policy, ours=OURS) for which in SETS)
    for which in SETS:
        mine = of(found, which, OURS)
        yield (
            f"ours, {which}: late at most {max(told.late for told in mine):.3f} %; cells at p95 "
            f"{np.mean([told.slowed for told in mine]):.3f} x, worst seed {max(told.slowed for told in mine):.3f}; "
            f"{np.mean([told.used for told in mine]):.2f} of all GPUs' time used, native "
            f"{np.mean([told.used for told in of(found, which, 'native')]):.2f}; "
            f"{np.mean([told.restarts for told in mine]):.1f} changes a training"
        )
    for crowded in runs.CROWDING:
        for policy in CURVE[:-1]:
            each = "; ".join(measure.shown(found, which, policy, crowded, ours=OURS) for which in SETS)
            yield f"at {crowded} of 16, {policy}: {each}"
    yield from _losses(found)


def _losses(found: All) -> Iterator[str]:
    for which, policy in product(SETS, (*BASELINES, *BESIDE)):
        ratios = np.log(measure.ratio(found, which, policy, OURS))
        gains = measure.gain(found, which, policy, OURS)
        if len(ratios) and interval(ratios)[0] <= 0:
            yield f"level or behind in makespan, {which}: {policy} {np.exp(ratios.mean()):.2f} x"
        if len(gains) and interval(gains)[0] <= 0:
            yield f"level or behind in completion time, {which}: {policy} {100 * gains.mean():.0f} %"


def _low_ratio(found: All, which: str, policy: str) -> float:
    return float(np.exp(interval(np.log(measure.ratio(found, which, policy, OURS)))[0]))


def _pairs(found: All, which: str) -> list[tuple[runs.Told, runs.Told]]:
    return paired(found, which, "native", OURS)
