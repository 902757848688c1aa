"""`training`: notebooks, a service and trainings on 16 T4, under Weft and under what it is compared with.

4 nodes with 4 T4 each. 8 notebooks (busy 5 to 25 % of the time, cells of 60 s on average); a service that needs 2.4 +-
1.4 replicas over a "day" of four hours and 1.5 to 2.5 more in a burst of 2 to 5 minutes each half hour, 6 at most;
12 trainings in three waves of four, 300 s apart, each about 3,000 s with 2 workers on one node. `ps`: asynchronous with
a parameter server; `ar`: all-reduce with step times and restarts as Pollux' authors measured them on T4; `mixed`: half
each. Pods start within 5 to 60 s; what policies know of a training has 10 % noise. At 12 of 16: as whole-GPU notebooks
and four replicas hold so many.

Ours is production's scheduler and autoscaler in memory with production's settings, the same in all sets: trainings with
1 to 4 workers, within one node where their scaling curve asks for it; the service by the law, with its other replicas
on standby, whose GPUs are lent; each notebook with half a GPU. Beside it stands what `policies.py` lists.

- `makespan_ratio_ci_low`: native Kubernetes' makespan over ours, the geometric mean over paired seeds: the low end of
  a 95 % bootstrap, of the worst set. `jct_percent_ci_low`: by how much the mean completion time is lower, likewise.
- `late_percent`: requests that waited longer than 0.1 s, mean of the worst set.

Constants were chosen on seeds 0 to 4 (docs/training-mix.md); the figures come from seeds 5 and on.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.mix import runs
from controlplane.benchmarks.mix.draws import RISE, SETS
from controlplane.benchmarks.mix.policies import ALONE, PARTS, POOLED, POSTER
from controlplane.benchmarks.mix.runs import Key, Told

Floats = npt.NDArray[np.float64]
All = Mapping[Key, Told]
Play = Callable[[Path, Key], Told]
RESAMPLES = 10_000
PROCESSES = 2


def run(options: Options, progress: Progress) -> Result:
    """Play all. `--repeat` takes fewer seeds. Raises BenchmarkError where the tables are missing."""
    return judged(played(options, progress))


def played(options: Options, progress: Progress) -> dict[Key, Told]:
    """All runs. Raises BenchmarkError."""
    seeds = seeds_of(options)
    return play_all(options, list(runs.wanted(seeds, seeds[: runs.FEW])), runs.told, progress)


def seeds_of(options: Options) -> Sequence[int]:
    """Those of the pairs, none of which a constant was chosen on."""
    first = runs.FIRST_SEED + runs.SEEDS * options.seeds[0]
    return range(first, first + (options.repeat or runs.SEEDS))


def play_all(options: Options, keys: Sequence[Key], told: Play, progress: Progress) -> dict[Key, Told]:
    """Play these, two at a time. Raises BenchmarkError."""
    if not (options.data / "training" / "pollux" / "profile_placements.csv").exists():
        raise BenchmarkError(
            f"{options.data} has no step times of Pollux. Set WEFT_DATA to the folder with the shared traces."
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    found: dict[Key, Told] = {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        futures = {key: pool.submit(told, options.data, key) for key in keys}
        for number, (key, future) in enumerate(futures.items()):
            progress(number / len(futures), f"{key.which}, seed {key.seed}, {key.policy}")
            found[key] = future.result()
    return found


def judged(found: All) -> Result:
    """Figures and notes of what was played."""
    ratios = {which: interval(np.log(ratio(found, which, "native")))[0] for which in SETS}
    gains = {which: interval(gain(found, which, "native"))[0] for which in SETS}
    late = max(float(np.mean([told.late for told in of(found, which, "ours")])) for which in SETS)
    figures = (
        Figure(
            "training.makespan_ratio_ci_low",
            down(float(np.exp(min(ratios.values())))),
            "x",
            2.6,
            higher_is_better=True,
        ),
        Figure("training.jct_percent_ci_low", down(100 * min(gains.values()), 1), "%", 50.0, higher_is_better=True),
        Figure("training.late_percent", round(late, 3), "%", 0.1),
    )
    return Result(figures, tuple(notes(found)))


def of(
    found: All, which: str, policy: str, crowded: int = runs.CROWDED, load: float = 0.0, rise: float = RISE
) -> list[Told]:
    """The runs of one cell, by seed."""
    some = {key.seed: one for key, one in found.items() if key == Key(which, policy, key.seed, crowded, load, rise)}
    return [some[seed] for seed in sorted(some)]


def ratio(
    found: All, which: str, policy: str, ours: str = "ours", crowded: int = runs.CROWDED, load: float = 0.0
) -> Floats:
    """Makespan of a policy over ours, by paired seed."""
    pairs = paired(found, which, policy, ours, crowded, load)
    return np.array([theirs.makespan / mine.makespan for theirs, mine in pairs])


def gain(
    found: All, which: str, policy: str, ours: str = "ours", crowded: int = runs.CROWDED, load: float = 0.0
) -> Floats:
    """Part of the mean completion time that is saved, by paired seed."""
    return np.array([1 - mine.jct / theirs.jct for theirs, mine in paired(found, which, policy, ours, crowded, load)])


def paired(
    found: All, which: str, policy: str, ours: str, crowded: int = runs.CROWDED, load: float = 0.0
) -> list[tuple[Told, Told]]:
    """What a policy and ours did with the same draws, by seed; where both were played."""
    seeds = sorted({key.seed for key in found if key == Key(which, policy, key.seed, crowded, load)})
    pairs = ((Key(which, policy, seed, crowded, load), Key(which, ours, seed, crowded, load)) for seed in seeds)
    return [(found[theirs], found[mine]) for theirs, mine in pairs if mine in found]


def interval(values: Floats) -> tuple[float, float]:
    """Of the mean, 95 %, by resampling the values."""
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def notes(found: All) -> Iterator[str]:
    """One line each, with the intervals; where ours is level or behind, a line says so."""
    seeds = sorted({key.seed for key in found})
    yield f"seeds {seeds[0]} to {seeds[-1]}; ratios of makespan and savings of mean completion time are ours' against"
    for policy in (*ALONE, *runs.VARIANTS, *POOLED, *POSTER, *PARTS):
        yield f"{policy}: " + "; ".join(shown(found, which, policy) for which in SETS)
    for which in SETS:
        yield _at_most(found, which)
        mine = of(found, which, "ours")
        late, slowed = [told.late for told in mine], [told.slowed for told in mine]
        yield (
            f"ours, {which}: late {np.mean(late):.3f} %, worst seed {max(late):.3f} %; cells at p95 "
            f"{np.mean(slowed):.2f} x; {np.mean([told.used for told in mine]):.2f} of all GPUs' time used, native "
            f"{np.mean([told.used for told in of(found, which, 'native')]):.2f}; "
            f"{np.mean([told.restarts for told in mine]):.1f} changes a training; with sudden bursts late "
            f"{_mean_late(of(found, which, 'ours', rise=0.0))}"
        )
    for crowded in (*runs.CROWDING, runs.CROWDED):
        for policy in runs.CURVE[:-1]:
            yield f"at {crowded} of 16, {policy}: " + "; ".join(shown(found, which, policy, crowded) for which in SETS)
    yield from _at_random(found)
    yield from losses(found)


def shown(found: All, which: str, policy: str, crowded: int = runs.CROWDED, ours: str = "ours") -> str:
    """Ratio and savings with their intervals, and what is late."""
    ratios, gains = ratio(found, which, policy, ours, crowded), gain(found, which, policy, ours, crowded)
    if not len(ratios):
        return f"{which} not played"
    low, high = (float(np.exp(one)) for one in interval(np.log(ratios)))
    few, many = (100 * one for one in interval(gains))
    return (
        f"{which} {np.exp(np.log(ratios).mean()):.2f} x [{low:.2f}, {high:.2f}], {100 * gains.mean():.0f} % "
        f"[{few:.0f}, {many:.0f}], late {_mean_late(of(found, which, policy, crowded))}"
    )


def _at_most(found: All, which: str) -> str:
    """What no policy could beat of native's makespan; see bounds.py."""
    beyond = np.log([told.makespan / told.least for told in of(found, which, "native")])
    low, _ = np.exp(interval(beyond))
    return f"{which}: native's makespan is {np.exp(beyond.mean()):.2f} x what no policy can beat, low end {low:.2f}"


def _mean_late(some: Sequence[Told]) -> str:
    return f"{np.mean([told.late for told in some]):.2f} %" if some else "-"


def _at_random(found: All) -> Iterator[str]:
    for load in runs.LOADS:
        mine = of(found, "mixed", "ours", load=load)
        for policy in runs.AT_RANDOM[:-1]:
            theirs = of(found, "mixed", policy, load=load)
            if mine and theirs:
                jct = np.mean([a.jct / b.jct for a, b in zip(theirs, mine, strict=True)])
                used = 100 * (np.mean([one.used for one in mine]) - np.mean([one.used for one in theirs]))
                yield f"at random, load {load:g}: {policy}'s mean completion time /{jct:.1f}, {used:+.0f} points used"


def losses(found: All) -> Iterator[str]:
    """Where a baseline is level with ours or better."""
    for which in SETS:
        for crowded in (*runs.CROWDING, runs.CROWDED):
            for policy in (*ALONE, *runs.VARIANTS, *POOLED, *POSTER, *PARTS):
                ratios = np.log(ratio(found, which, policy, crowded=crowded))
                gains, where = gain(found, which, policy, crowded=crowded), f"{which}, {crowded} of 16"
                if len(ratios) and interval(ratios)[0] <= 0:
                    yield f"level or behind in makespan, {where}: {policy} {np.exp(ratios.mean()):.2f} x"
                if len(gains) and interval(gains)[0] <= 0:
                    yield f"level or behind in completion time, {where}: {policy} {100 * gains.mean():.0f} %"


def down(value: float, digits: int = 2) -> float:
    """Rounded down, so that a goal is not met by rounding."""
    return float(np.floor(value * 10**digits) / 10**digits)
