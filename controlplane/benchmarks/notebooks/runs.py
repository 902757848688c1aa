"""Which settings are compared, and the most users each one serves at the level that users are promised.

The level: of all cells, 95 % take at most SLOW times as long as on a GPU of their own, with all that they wait counted;
of all (re)starts, 95 % wait for a GPU for at most WAIT s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from controlplane.benchmarks.harness.figure import quantile
from controlplane.benchmarks.notebooks.engine import Life, Lived, Policy
from controlplane.benchmarks.notebooks.policies import COSTS, Costs, OnDemand, Sliced
from controlplane.benchmarks.notebooks.sessions import DAY, Population, deleted, load
from gpushare.ondemand import RULES, Rules

SLOW, WAIT = 1.10, 60.0
NEVER = 10**9  # s
MOST = 16  # notebooks on a GPU that a search goes to
WARM = 1.0  # days before anything counts: twice what a notebook needs to be parked and more
MIGRATION = (1.0, 2.5)  # s, and GiB in a second, of a process that moves to another node
DELETES = 4 * 3600.0  # s: before longer gaps such a user deletes the notebook
SLICES, CULLS = (1, 2, 3, 4, 8), (None, 10, 20, 30, 60)  # notebooks on a GPU; minutes


@dataclass(frozen=True, slots=True)
class Setting:
    """make: the policy for the GPUs of each node and a seed. deletes: its users do before long gaps.

    most: no more notebooks than that on a GPU can be open, whatever the level; None: it does not say.
    """

    make: Callable[[tuple[int, ...], int], Policy]
    deletes: bool = False
    most: int | None = None


def _on_demand(rules: Rules = RULES, costs: Costs = COSTS, *, young_first: bool = True) -> Setting:
    return Setting(lambda nodes, seed: OnDemand(nodes, seed, rules, costs, young_first=young_first))


def _sliced(slices: int, minutes: int | None, *, deletes: bool = False) -> Setting:
    seconds = None if minutes is None else minutes * 60.0
    most = slices if minutes is None and not deletes else None
    return Setting(lambda nodes, seed: Sliced(sum(nodes), seed, slices, seconds), deletes, most)


OURS, BOUND, WHOLE_GPU = "on demand", "on demand, migration between nodes", "1 a GPU, never culled"
PACKED = Rules(volume_after=NEVER, park_after=NEVER, can_move=False)
PARKED = Rules(volume_after=NEVER, park_after=1800, can_move=False)
PARTS: Mapping[str, Setting] = {
    "packed": _on_demand(PACKED, young_first=False),
    "packed, parked after 30 min": _on_demand(PARKED, young_first=False),
    "packed, parked, young cells first": _on_demand(PARKED),
    "on demand, cells share evenly": _on_demand(young_first=False),
    "on demand, switches take 4 times as long": _on_demand(costs=Costs(factor=4.0)),
}
BASELINES: Mapping[str, Setting] = {
    f"{slices} a GPU, {f'culled after {minutes} min' if minutes else 'never culled'}": _sliced(slices, minutes)
    for slices in SLICES
    for minutes in CULLS
} | {f"{slices} a GPU, deleted before gaps of 4 h": _sliced(slices, None, deletes=True) for slices in SLICES}
SETTINGS: Mapping[str, Setting] = {
    OURS: _on_demand(),
    BOUND: _on_demand(Rules(volume_after=0), Costs(across=MIGRATION)),
    **PARTS,
    **BASELINES,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One search: a setting on a set of sessions and a seed. step: notebooks; days: that count."""

    setting: str
    which: str
    seed: int
    nodes: tuple[int, ...]
    half: int = 2
    step: int = 2
    days: float = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """users: the most that the level allows, for each GPU; 0: not even as few as were tried. The rest is at that."""

    users: float
    slow_p95: float
    slow_p99: float
    slow_mean: float
    long_mean: float
    busy: float


def most(data: Path, key: Key, guess: float = 2.0) -> Found:
    """The most places for notebooks at which the level holds. guess: for each GPU, where the search begins."""
    gpus, setting = sum(key.nodes), SETTINGS[key.setting]
    lived: dict[int, Lived] = {}

    def holds(step: int) -> bool:
        places = step * key.step
        if places <= 0:
            return True
        if places > gpus * (MOST if setting.most is None else setting.most):
            return False
        if step not in lived:
            lived[step] = play(data, key, places)
        return is_held(lived[step])

    step = last(holds, max(1, round(guess * gpus / key.step)), max(1, round(gpus / (4 * key.step))))
    return told(step * key.step / gpus, lived[step]) if step in lived else Found(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def at(data: Path, key: Key, users: float) -> Found:
    """What cells see with so many notebooks for each GPU."""
    return told(users, play(data, key, round(users * sum(key.nodes))))


def play(data: Path, key: Key, places: int) -> Lived:
    """So many places for notebooks under a setting."""
    setting, people = SETTINGS[key.setting], _people(data, key.which, key.half)
    cells = [people.replayed(key.seed, place) for place in range(places)]
    if setting.deletes:
        cells = [deleted(one, DELETES) for one in cells]
    policy = setting.make(key.nodes, key.seed)
    return Life(cells, sum(key.nodes), policy, WARM * DAY, (WARM + key.days) * DAY).run()


def is_held(lived: Lived) -> bool:
    """Whether the level is."""
    if not lived.slowed:
        return True
    return quantile(lived.slowed, 0.95) <= SLOW and (not lived.waited or quantile(lived.waited, 0.95) <= WAIT)


def told(users: float, lived: Lived) -> Found:
    """What one run says of its cells."""
    slowed, long = lived.slowed or (1.0,), lived.long_slowed or (1.0,)
    mean = sum(slowed) / len(slowed)
    p95, p99 = quantile(slowed, 0.95), quantile(slowed, 0.99)
    return Found(users, p95, p99, mean, sum(long) / len(long), lived.busy)


def last(holds: Callable[[int], bool], guess: int, stride: int) -> int:
    """The last step that holds, where none does after one that does not."""
    low, high = guess, guess
    if holds(guess):
        while holds(high := high + stride):
            low = high
            stride *= 2
    else:
        while low > 0 and not holds(low := max(0, low - stride)):
            high = low
            stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@lru_cache(maxsize=4)
def _people(data: Path, which: str, half: int) -> Population:
    return Population(load(data, which, half))
