"""E2 beside the cluster: DRAGON's twelve trainings, in the crowded mix and alone, under each policy that plays there.

As `mix/dragon.py` has it, on the same seeds; `fulfilment` is added. `binpack` is FIFO with backfill, packed. Tiresias,
Optimus and Sia know no services, notebooks or parameter servers, so they are not played here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from controlplane.benchmarks.baselines.fulfilment import FULFILMENT, NAME
from controlplane.benchmarks.harness.figure import Options, Progress
from controlplane.benchmarks.mix import dragon, measure, runs
from controlplane.benchmarks.mix.dragon import BY_ITSELF, NOTHING_ELSE, SETS, Cell
from controlplane.benchmarks.mix.policies import ALONE
from controlplane.benchmarks.mix.runs import CROWDED, Key, Told

CELLS = (
    *(Cell(f"E2, {which} in the mix", which, CROWDED, 0.0, (*ALONE, NAME)) for which in SETS),
    *(Cell(f"E2, {which} alone", which, NOTHING_ELSE, 0.0, (*BY_ITSELF, NAME)) for which in SETS),
)


def played(options: Options, progress: Progress) -> dict[Key, Told]:
    """All runs. Raises BenchmarkError where the tables are missing."""
    few = replace(options, repeat=min(options.repeat or runs.SEEDS, runs.SEEDS))
    return measure.play_all(options, list(wanted(measure.seeds_of(few))), told, progress)


def wanted(seeds: Sequence[int]) -> Iterator[Key]:
    """All runs."""
    for cell in CELLS:
        yield from (
            Key(cell.which, name, seed, cell.crowded) for name, seed in product(("ours", *cell.policies), seeds)
        )


def told(data: Path, key: Key) -> Told:
    """Play one."""
    world = dragon.world_of(runs.applications(data), key)
    return runs.measured(world, FULFILMENT if key.policy == NAME else key.policy)
