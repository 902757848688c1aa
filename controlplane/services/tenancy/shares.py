"""Recent usage: kept exactly, by an exponential kernel over the cluster's clock, and told to the scheduler in steps."""

import math
from collections.abc import Mapping
from typing import Any

from controlplane.models import Node, TeamUse, bulk
from controlplane.services.scheduling import changes, policy
from gpushare.gpu import WHOLE

STEP = 500  # milli-GPU, and
STEP_PART = 0.01  # of a pool's GPUs: the scheduler gets recent usage again when it has changed by the larger of the two

Held = Mapping[tuple[int, str], list[tuple[int, int, int]]]  # by team and pool: start, end, milli-GPU held between


def note(*, to: float, held: Held) -> int:
    """Add allocations to each team's recent usage, as of `to`; tell for how many teams the scheduler gets a new one.

    A mean with weight 2**(-age / half-life): what was held from a to b counts as the kernel's integral over that time,
    so it makes no difference in how many steps it was added. Called within the account loop's fenced transaction.
    """
    half_life = policy.current()[0].scheduling.use_half_life_seconds
    rate = math.log(2) / half_life if half_life else math.inf
    names = ("id", "team_id", "pool", "decayed", "at", "stated")
    known = {(team, pool): (pk, value, at, stated) for pk, team, pool, value, at, stated in bulk.select(TeamUse, names)}
    steps = _steps() if known or held else {}
    kept: list[tuple[Any, ...]] = []
    new: list[tuple[Any, ...]] = []
    told = 0
    for key in sorted(known.keys() | held.keys()):
        pk, value, at, stated = known.get(key, (0, 0.0, to, 0))
        value = value * _kernel(rate, to - at) + sum(
            milli * (_kernel(rate, to - end) - _kernel(rate, to - start)) for start, end, milli in held.get(key, ())
        )
        is_far = abs(value - stated) >= max(STEP, STEP_PART * steps.get(key[1], 0))
        told += is_far
        row = (value, to, round(value) if is_far else stated)
        if not pk:
            new.append((*key, *row))
        elif is_far or key in held:
            kept.append((*row, pk))
    bulk.update(TeamUse, ("decayed", "at", "stated"), ("id",), kept)
    bulk.insert(TeamUse, ("team_id", "pool", "decayed", "at", "stated"), new)
    if told:
        changes.touch(None)
    return told


def _kernel(rate: float, age: float) -> float:
    return math.exp(-rate * max(0.0, age)) if age > 0 else 1.0


def _steps() -> dict[str, int]:
    """milli-GPU of each pool."""
    sums: dict[str, int] = {}
    for pool, gpus in Node.objects.values_list("pool__name", "gpu_count"):
        sums[pool] = sums.get(pool, 0) + gpus * WHOLE
    return sums
