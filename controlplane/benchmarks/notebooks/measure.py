"""`notebooks`: how many notebook users one GPU serves, on demand and with what stock clusters do.

A place for a notebook is always taken: it replays a real session of days 16 to 30, then another one; a user thinks as
long as it did, from the end of a cell on. Constants were chosen on days 1 to 15 with seeds 0 to 4. 64 GPUs of 80 GiB on
nodes of 8, 12 seeds, 2 days after one that does not count. A cell wants a whole GPU. Assumed: 2 to 24 GiB a notebook
(lognormal, median 6), .3 s and 10 GiB/s to move device memory within a node, and the same again for each notebook that
makes room; 8 s (p95 15) from the volume, 15 s (p95 45) for a pod that starts again; 3 % of the time of a GPU is lost
while cells share it. What stock clusters share loses nothing.

The level: 95 % of the cells take at most 1.10 times as long as on a GPU of their own, from the user's wish to the end;
95 % of (re)starts wait for a GPU for at most 60 s. A whole GPU from creation to deletion serves one user, so:

- `users_per_gpu_ratio`: the most notebooks for each GPU at the level, set `human` (no cell longer than 2 h);
  `_all`: all sessions. The low end of the 95 % interval of the geometric mean.
- `over_best_stock_ratio`: that over the best stock setting's, seed by seed; `_all`. Stock settings are 1, 2, 3, 4 or 8
  notebooks a GPU, culled never or after 10, 20, 30 or 60 minutes, or deleted by their users before gaps of 4 h. All are
  tried with the first seeds, the best few with all; the best of these is taken in hindsight.
- `cell_slowdown_p95`: with 3.2 notebooks for each GPU, `human`: the high end of the interval of the seeds' p95.

`_bound`: could a process move between nodes (1 s, 2.5 GiB/s), which no driver does today.
"""

import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.notebooks import runs
from controlplane.benchmarks.notebooks.runs import BASELINES, BOUND, OURS, PARTS, Found, Key
from controlplane.benchmarks.notebooks.sessions import load

PROCESSES = 2
FIRST, SEEDS = 10, 12  # seeds 0 to 4 were used to choose constants
T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262, 12: 2.201}  # Student's, 97.5 %
SETS = ("human", "all")
GUESS = {"human": 3.3, "all": 1.8}  # where a search begins; it changes nothing but how long it takes
GOAL = {"human": 3.2, "all": 1.7}
OVER = 1.15

All = dict[Key, Found]


@dataclass(frozen=True, slots=True)
class Plan:
    """GPUs of each node, days that count, and the smallest step of a search in notebooks.

    screened: seeds with which all stock settings are tried; finalists: how many of them go on; few: seeds of the parts.
    """

    nodes: tuple[int, ...] = (8,) * 8
    small: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"16 GPUs": (8, 8), "4 GPUs": (4,)})
    days: float = 2.0
    step: int = 2
    screened: int = 2
    finalists: int = 2
    few: int = 4


PLAN = Plan()


def run(options: Options, progress: Progress) -> Result:
    """Search all. `--repeat` takes fewer seeds. Raises BenchmarkError where the sessions are missing."""
    count = options.repeat or SEEDS
    seeds = range(FIRST + SEEDS * options.seeds[0], FIRST + SEEDS * options.seeds[0] + count)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        return measured(pool, options.data, PLAN, seeds, progress)


def measured(pool: Executor, data: Path, plan: Plan, seeds: Sequence[int], progress: Progress) -> Result:
    """All searches, in the pool. Raises BenchmarkError."""
    for which in SETS:
        load(data, which, 2)
    screened = [
        Key(name, which, seed, plan.nodes, step=4 * plan.step, days=plan.days / 2)
        for which in SETS
        for name in BASELINES
        for seed in seeds[: plan.screened]
    ]
    tried = _all(pool, data, screened, progress, "stock settings")
    names = {which: _best(tried, which)[: plan.finalists] for which in SETS}
    found = _all(pool, data, wanted(plan, names, seeds), progress, "most notebooks")
    keys = [Key(OURS, "human", seed, plan.nodes, days=plan.days) for seed in seeds]
    waits = [pool.submit(runs.at, data, key, GOAL["human"]) for key in keys]
    return judged(found, plan, names, [one.result().slow_p95 for one in waits])


def _all(pool: Executor, data: Path, keys: Sequence[Key], progress: Progress, what: str) -> All:
    """The most notebooks of each."""
    waits = {key: pool.submit(runs.most, data, key, GUESS[key.which]) for key in keys}
    found = {}
    for number, (key, one) in enumerate(waits.items()):
        progress(number / len(waits), f"{what}: {key.which}, seed {key.seed}, {key.setting}")
        found[key] = one.result()
    return found


def wanted(plan: Plan, names: Mapping[str, Sequence[str]], seeds: Sequence[int]) -> list[Key]:
    """All searches after the screening. names: the stock settings of each set that go on."""
    few = seeds[: plan.few]
    told = [(name, which, seeds) for which in SETS for name in (OURS, *names[which])]
    told += [(BOUND, which, few) for which in SETS] + [(name, "human", few) for name in PARTS]
    keys = [
        Key(name, which, seed, plan.nodes, step=plan.step, days=plan.days)
        for name, which, some in told
        for seed in some
    ]
    small = plan.small.values()
    return keys + [Key(OURS, "human", seed, nodes, step=1, days=plan.days) for nodes in small for seed in seeds]


def _best(tried: All, which: str) -> list[str]:
    """The stock settings, those with the most users in the screening first."""
    users: dict[str, float] = {}
    for key, found in tried.items():
        if key.which == which:
            users[key.setting] = users.get(key.setting, 0.0) + found.users
    return sorted(users, key=lambda name: -users[name])


def judged(found: All, plan: Plan, names: Mapping[str, Sequence[str]], slowed: Sequence[float]) -> Result:
    """Figures and notes. slowed: p95 of the cells with as many notebooks as are the goal, by seed."""
    figures = []
    for which in SETS:
        suffix = "" if which == "human" else f"_{which}"
        ours = users(found, OURS, which, plan.nodes)
        theirs = max((users(found, name, which, plan.nodes) for name in names[which]), key=geometric)
        over = [mine / (other or 1 / sum(plan.nodes)) for mine, other in zip(ours, theirs, strict=True)]
        low, high = down(interval(ours)[0]), down(interval(over)[0])
        figures.append(Figure(f"notebooks.users_per_gpu_ratio{suffix}", low, "x", GOAL[which], True))
        figures.append(
            Figure(f"notebooks.over_best_stock_ratio{suffix}", high, "x", OVER if which == "human" else None, True)
        )
    middle, half = statistics.mean(slowed), spread(slowed)
    figures.append(Figure("notebooks.cell_slowdown_p95", math.ceil(1000 * (middle + half)) / 1000, "x", runs.SLOW))
    for which in SETS:
        suffix = "" if which == "human" else f"_{which}"
        low = down(interval(users(found, BOUND, which, plan.nodes))[0])
        figures.append(Figure(f"notebooks.users_per_gpu_ratio_bound{suffix}", low, "x", None, True))
    return Result(tuple(figures), tuple(notes(found, plan, names)))


def notes(found: All, plan: Plan, names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A line for each setting."""
    for which in SETS:
        for name in (OURS, BOUND, *names[which]):
            yield f"{which}, {name}: {shown(found, name, which, plan.nodes)}"
    for label, nodes in plan.small.items():
        yield f"human, {OURS}, {label}: {shown(found, OURS, 'human', nodes)}"
    for name in PARTS:
        yield f"human, {name}: {shown(found, name, 'human', plan.nodes)}"


def shown(found: All, name: str, which: str, nodes: tuple[int, ...]) -> str:
    """Users for each GPU with their interval, and what cells see with as many."""
    some = of(found, name, which, nodes)
    numbers = [one.users for one in some]
    low, high = interval(numbers)
    seen = [statistics.mean(getattr(one, what) for one in some) for what in ("slow_p95", "slow_p99", "slow_mean")]
    long, busy = (statistics.mean(getattr(one, what) for one in some) for what in ("long_mean", "busy"))
    return (
        f"{geometric(numbers):.2f} users a GPU [{low:.2f}, {high:.2f}], {len(some)} seeds; cells p95 {seen[0]:.3f} x, "
        f"p99 {seen[1]:.2f}, mean {seen[2]:.3f}, mean from an hour on {long:.2f}; GPUs {100 * busy:.0f} % busy"
    )


def of(found: All, name: str, which: str, nodes: tuple[int, ...]) -> list[Found]:
    """By seed."""
    some = [key for key in found if (key.setting, key.which, key.nodes) == (name, which, nodes)]
    return [found[key] for key in sorted(some, key=lambda key: key.seed)]


def users(found: All, name: str, which: str, nodes: tuple[int, ...]) -> list[float]:
    """Users for each GPU, by seed."""
    return [one.users for one in of(found, name, which, nodes)]


def geometric(values: Sequence[float]) -> float:
    """Mean; 0 if one of them is."""
    return math.exp(statistics.mean(math.log(one) for one in values)) if all(values) else 0.0


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Of the geometric mean, 95 %."""
    if not all(values):
        return 0.0, max(values)
    logs = [math.log(one) for one in values]
    middle, half = statistics.mean(logs), spread(logs)
    return math.exp(middle - half), math.exp(middle + half)


def spread(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean."""
    if len(values) < min(T):
        return 0.0
    t = T[max(count for count in T if count <= len(values))]  # of fewer seeds: a little wider
    return t * statistics.stdev(values) / math.sqrt(len(values))


def down(value: float) -> float:
    """Rounded down, so that no goal is met by rounding."""
    return math.floor(1000 * value) / 1000
