"""Which runs the figure `training` is made of, and what is kept of each."""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from controlplane.benchmarks.mix import bounds, cells, draws, engine
from controlplane.benchmarks.mix.jobs import NODE_GPUS, NODES
from controlplane.benchmarks.mix.policies import ALONE, PARTS, POLICIES, POOLED, POSTER, Policy
from controlplane.benchmarks.training.tables import Application, t4_applications

FIRST_SEED = 5  # constants were chosen on those before
SEEDS, FEW = 10, 3  # paired seeds of what the figure is made of, and of what stands beside it
CROWDED = 12
CROWDING = (4, 8, 14)  # GPUs of 16; 12 is the figure's own
CURVE = ("native", "binpack", "edragon", "ours")
LOADS = (0.6, 0.9, 1.2)  # of what comes at random, over the GPUs that the others leave
AT_RANDOM = ("native", "binpack", "ours")
VARIANTS = ("ours, no shares", "ours, from 2 workers", "ours, planner")


@dataclass(frozen=True, slots=True)
class Key:
    """One run. load: of trainings that come at random, 0: in waves; rise: s of the service's bursts.

    times: of everything there is so many times as much; work: of trainings, over the usual.
    """

    which: str
    policy: str
    seed: int
    crowded: int = CROWDED
    load: float = 0.0
    rise: float = draws.RISE
    times: int = 1
    work: float = 1.0


@dataclass(frozen=True, slots=True)
class Told:
    """Of one run; s, percent, parts. slowed: of cells, at the 95th percentile, over those alone on a GPU. least: the
    makespan that no policy can beat (bounds.py)."""

    makespan: float
    jct: float
    late: float
    slowed: float
    used: float
    computing: float
    restarts: float
    least: float


def wanted(seeds: Sequence[int], few: Sequence[int]) -> Iterator[Key]:
    """All runs: what the figure is made of first. few: the seeds of what stands beside it."""
    yield from (Key(*cell) for cell in product(draws.SETS, ("ours", *ALONE), seeds))
    yield from (Key(*cell) for cell in product(draws.SETS, (*VARIANTS, *POOLED, *POSTER, *PARTS), few))
    yield from (Key(which, "ours", seed, rise=0.0) for which, seed in product(draws.SETS, few))
    yield from (Key(*cell) for cell in product(draws.SETS, CURVE, few, CROWDING))
    yield from (Key("mixed", policy, seed, load=load) for load, policy, seed in product(LOADS, AT_RANDOM, few))


def told(data: Path, key: Key) -> Told:
    """Play one."""
    return measured(world_of(applications(data), key), key.policy)


def world_of(apps: dict[str, Application], key: Key) -> draws.World:
    """What is drawn for it."""
    if key.load:
        return draws.poisson_world(key.which, key.seed, apps, key.load, key.crowded, work=key.work)
    return draws.world(key.which, key.seed, apps, key.crowded, key.rise, times=key.times, work=key.work)


def measured(world: draws.World, policy: str | Policy) -> Told:
    """Play this world under a policy, or the one of that name."""
    outcome = engine.play(world, POLICIES[policy] if isinstance(policy, str) else policy)
    gc.collect()  # the engine refers to itself, and its requests are large
    shared = outcome.cells or cells.run(outcome.places, world.seed, outcome.begin, outcome.end)
    computed = outcome.training_gpu_seconds + outcome.service_gpu_seconds + shared.busy
    return Told(
        outcome.makespan,
        outcome.mean_jct,
        outcome.late_percent,
        float(np.quantile(shared.slowed, 0.95)) if shared.slowed else 1.0,
        computed / (NODES * NODE_GPUS * world.times * outcome.makespan),
        outcome.training_gpu_seconds / outcome.makespan,
        outcome.restarts,
        bounds.least_makespan(world),
    )


@cache
def applications(data: Path) -> dict[str, Application]:
    """The measured models."""
    return t4_applications(data)
