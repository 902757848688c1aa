"""What `manage.py reproduce dragon` plays and what is made of it: Enhanced Dragon's experiment on the mix's engine.

DRAGON's own manifests: twelve trainings, all alike, four every 300 s, each with a parameter server and 2 workers of one
GPU. Where policies are elastic they have 1 to 4 workers, and ask for 4, 1 and 4 in the three waves, as its authors'
manifests do. `ps`: asynchronous, so that a worker more is a worker faster until the server holds them back; `ar`: as
many with all-reduce, with step times that Pollux' authors measured on T4. Once in the crowded mix of notebooks and a
service on 16 GPUs, once alone on the same cluster. And at random: trainings of 1, 2 or 4 workers that come at .6, .9
and 1.2 of what the GPUs that are left can do.

- `makespan_ratio_ci_low`: native Kubernetes' makespan over ours in the mix, the geometric mean over paired seeds: the
  low end of a 95 % bootstrap, of the worst set. `jct_percent_ci_low`: by how much the mean completion time is lower.
- `used_points_ci_low`: how much more of all GPUs' time is computed in than under native Kubernetes, at random in the
  mix, at the worst load; `elapsed_percent_ci_low`: by how much the mean completion time is lower there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.mix import draws, measure, runs
from controlplane.benchmarks.mix.measure import All, Floats, down, gain, interval, paired, ratio
from controlplane.benchmarks.mix.policies import ALONE, PARTS
from controlplane.benchmarks.mix.runs import CROWDED, LOADS, Key, Told
from controlplane.benchmarks.training.tables import Application

SETS = ("ps", "ar")
AT_RANDOM = "mixed"  # half of these trainings each
NOTHING_ELSE = 0  # GPUs of 16 that others hold where trainings are alone
POOLED = tuple(f"{name}, pool" for name in ("native", "binpack", "kueue-like", "dragon", "edragon"))
IN_MIX = (*ALONE, *POOLED)
# Without a service edragon is dragon, and nothing preempts or scales; without notebooks nothing shares.
BY_ITSELF = ("native", "native, one worker", "native, partial", "gang", "binpack", "dragon")
BY_ITSELF_PARTS = ("+gang", "+locality")
RANDOM = ("native", "gang", "binpack", "kueue-like", "dragon", "edragon", "binpack, pool", "edragon, pool")
FEW = 5  # paired seeds of what comes at random


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison. crowded: GPUs of 16 that others hold; load: 0: the manifests; policies: those beside ours."""

    title: str
    which: str
    crowded: int
    load: float
    policies: tuple[str, ...]

    def ratios(self, found: All, policy: str, ours: str = "ours") -> Floats:
        """Makespan over ours, by paired seed."""
        return ratio(found, self.which, policy, ours, self.crowded, self.load)

    def gains(self, found: All, policy: str) -> Floats:
        """The part of the mean completion time that ours saves, by paired seed."""
        return gain(found, self.which, policy, "ours", self.crowded, self.load)


CELLS = (
    *(Cell(f"{which}, in the mix", which, CROWDED, 0.0, IN_MIX) for which in SETS),
    *(Cell(f"{which}, alone", which, NOTHING_ELSE, 0.0, BY_ITSELF) for which in SETS),
    *(Cell(f"at random in the mix, load {load:g}", AT_RANDOM, CROWDED, load, RANDOM) for load in LOADS),
    *(Cell(f"at random alone, load {load:g}", AT_RANDOM, NOTHING_ELSE, load, BY_ITSELF) for load in LOADS),
)


def played(options: Options, progress: Progress) -> dict[Key, Told]:
    """All runs. Raises BenchmarkError where the tables are missing."""
    seeds = measure.seeds_of(options)
    return measure.play_all(options, list(wanted(seeds, seeds[:FEW])), told, progress)


def wanted(seeds: Sequence[int], few: Sequence[int]) -> Iterator[Key]:
    """All runs. few: the seeds of what comes at random."""
    yield from (Key(*cell) for cell in product(SETS, ("ours", *IN_MIX, *PARTS), seeds))
    alone = ("ours", *BY_ITSELF, *BY_ITSELF_PARTS)
    yield from (Key(*cell, NOTHING_ELSE) for cell in product(SETS, alone, seeds))
    for load, crowded in product(LOADS, (CROWDED, NOTHING_ELSE)):
        names = ("ours", *(RANDOM if crowded else BY_ITSELF))
        yield from (Key(AT_RANDOM, name, seed, crowded, load) for name, seed in product(names, few))


def told(data: Path, key: Key) -> Told:
    """Play one."""
    return runs.measured(world_of(runs.applications(data), key), key.policy)


def world_of(apps: dict[str, Application], key: Key) -> draws.World:
    """What is drawn for it."""
    if key.load:
        return draws.poisson_world(key.which, key.seed, apps, key.load, key.crowded, work=key.work)
    return draws.manifests_world(key.which, key.seed, apps, key.crowded, work=key.work)


def judged(found: All) -> Result:
    """Figures, and all in words."""
    return Result(figures(found), tuple(notes(found)))


def figures(found: All) -> tuple[Figure, ...]:
    """Those with goals."""
    ratios = [interval(np.log(ratio(found, which, "native")))[0] for which in SETS]
    gains = [interval(gain(found, which, "native"))[0] for which in SETS]
    more = [interval(points(found, "native", load))[0] for load in LOADS]
    sooner = [interval(gain(found, AT_RANDOM, "native", load=load))[0] for load in LOADS]
    return (
        _figure("makespan_ratio_ci_low", down(float(np.exp(min(ratios)))), "x", 3.4),
        _figure("jct_percent_ci_low", down(100 * min(gains), 1), "%", 70.6),
        _figure("used_points_ci_low", down(min(more), 1), "points", 20.0),
        _figure("elapsed_percent_ci_low", down(100 * min(sooner), 1), "%", 65.0),
    )


def points(found: All, policy: str, load: float, crowded: int = CROWDED) -> Floats:
    """Of all GPUs' time, how many percent more ours computes in, by paired seed, where trainings come at random."""
    pairs = paired(found, AT_RANDOM, policy, "ours", crowded, load)
    return np.array([100 * (mine.used - theirs.used) for theirs, mine in pairs])


def notes(found: All) -> Iterator[str]:
    """A line for each policy in each cell, with the intervals."""
    for cell in CELLS:
        for policy in cell.policies:
            if said := compared(found, cell, policy):
                yield f"{cell.title}: {policy}: {said}"


def compared(found: All, cell: Cell, policy: str) -> str:
    """Makespan over ours, what ours saves of the mean completion time, and what is late; empty if not played."""
    ratios, gains = cell.ratios(found, policy), cell.gains(found, policy)
    if not len(ratios):
        return ""
    low, high = (float(np.exp(one)) for one in interval(np.log(ratios)))
    few, many = (100 * one for one in interval(gains))
    than = "shorter" if gains.mean() >= 0 else "longer"
    said = (
        f"makespan {np.exp(np.log(ratios).mean()):.2f} x ours [{low:.2f}, {high:.2f}]; mean completion time "
        f"{abs(100 * gains.mean()):.0f} % {than} under ours [shorter by {few:.0f} to {many:.0f}]"
    )
    if cell.load:
        more = points(found, policy, cell.load, cell.crowded)
        least, most = interval(more)
        said += f"; under ours {more.mean():+.1f} points of all GPUs' time used [{least:+.1f}, {most:+.1f}]"
    if cell.crowded:
        some = measure.of(found, cell.which, policy, cell.crowded, cell.load)
        said += f"; late {np.mean([one.late for one in some]):.2f} %"
    return said


def losses(found: All) -> list[str]:
    """In words: each goal that is missed, and each policy that is as good as ours or better, and by how much."""
    lost = [
        f"The goal of {one.name} is missed: {one.value:g} {one.unit}, and {one.goal:g} {one.unit} was asked for."
        for one in figures(found)
        if not one.met
    ]
    for cell in CELLS:
        for policy in cell.policies:
            lost += lost_to(found, cell, policy)
    return lost or ["None."]


def lost_to(found: All, cell: Cell, policy: str) -> Iterator[str]:
    """Whether this policy is as good as ours or better there, in words."""
    ratios, gains = np.log(cell.ratios(found, policy)), cell.gains(found, policy)
    if not len(ratios):
        return
    if interval(ratios)[0] <= 0:
        yield (
            f"{cell.title}: under {policy} all trainings are done {_level(ratios)}: its makespan is "
            f"{np.exp(ratios.mean()):.2f} times ours."
        )
    if interval(gains)[0] <= 0:
        more = 100 * float(np.mean(1 / (1 - gains)) - 1)  # of ours
        than = f"{abs(more):.0f} % {'shorter' if more < 0 else 'longer'} than under ours"
        yield f"{cell.title}: under {policy} a training is done {_level(gains)}: its mean completion time is {than}."


def _level(values: Floats) -> str:
    return "sooner than under ours" if interval(values)[1] < 0 else "as soon as under ours, as far as these seeds tell"


def _figure(name: str, value: float, unit: str, goal: float) -> Figure:
    return Figure(f"dragon.{name}", value, unit, goal, higher_is_better=True)
