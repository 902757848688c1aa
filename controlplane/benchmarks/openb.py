"""`openb`: how many GPUs placement gets allocated, against FGD, first fit and best fit in the same order of arrival.

Twelve lists of Alibaba's pods, ten seeds each; `arrivals` says how a run goes. FGD knows the whole list's frequencies,
as its authors' does; ours only the pods it has seen. What a gang with roles costs is measured apart (`rolegangs`).
"""

import csv
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.benchmarks import lookahead, rolegangs
from controlplane.benchmarks.arrivals import Filled, Learning, Scorer, World, fill, read_nodes, read_pods, world_of
from controlplane.benchmarks.figure import BenchmarkError, Figure, Options, Progress, Result
from gpushare.gpu import WHOLE
from scheduler.demand import demand_of
from scheduler.placement.fgd import Fragmentation
from scheduler.placement.fits import BestFit, FirstFit
from scheduler.placement.fleet import Kind
from scheduler.placement.rows import Fleet
from scheduler.snapshot import Node
from scheduler.workload import Ask

SEEDS = tuple(range(42, 52))  # the published ones
DEFAULT = "default"
ALLOCATION_PERCENT, DECISION_MS, LARGE_PERCENT = 96.2, 10.0, 2.0
NEAR_PUBLISHED = 0.15  # points between our FGD and the published one
POLICIES = ("FGD", "first-fit", "best-fit", "ours")
# Student's t, two-sided 95 %, by degrees of freedom.
T = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one list, by policy and then by seed; percents of the cluster's GPUs."""

    name: str
    runs: Mapping[str, Sequence[Filled]]
    capacity: int

    def percent(self, policy: str, is_final: bool = True) -> list[float]:
        """Allocation of each seed."""
        return [100 * (run.final if is_final else run.at_100) / self.capacity for run in self.runs[policy]]

    def failed(self, policy: str, when: int) -> float:
        """Large pods that found no place on average: arrived before 100 % load (0), or ever (1)."""
        return statistics.fmean(run.large_failed[when] for run in self.runs[policy])

    def arrived(self, when: int) -> float:
        """Large pods that arrived, on average."""
        return statistics.fmean(run.large[when] for run in self.runs["ours"])

    def ahead(self, of: str, is_final: bool = True) -> float:
        """The low end of the paired 95 % interval of how far we are ahead, in points."""
        pairs = zip(self.percent("ours", is_final), self.percent(of, is_final), strict=True)
        return low_end([mine - other for mine, other in pairs])


def run(options: Options, progress: Progress) -> Result:
    """Fill the cluster with each list, seed and policy. Raises BenchmarkError."""
    folder = options.data / "openb"
    nodes = read_nodes(options.nodes or folder / "nodes_gpu.csv")
    paths = [options.pods] if options.pods else sorted(folder.glob("pods_*.csv"))
    if not paths:
        raise BenchmarkError(f"There are no lists of pods in {folder}. Set WEFT_DATA to the folder with the traces.")
    seeds, measured = seeds_of(options.seeds), []
    _warm_up(nodes, read_pods(paths[0]))
    for number, path in enumerate(paths):
        name, asks = path.name.removesuffix(".gz").removesuffix(".csv").removeprefix("pods_"), read_pods(path)
        runs: dict[str, list[Filled]] = {policy: [] for policy in POLICIES}
        for turn, seed in enumerate(seeds):
            progress((number + turn / len(seeds)) / len(paths), f"{name}, seed {seed}")
            world = world_of(nodes, asks, seed)
            for policy in POLICIES:
                runs[policy].append(fill(world, lambda *found, policy=policy: scorer_of(policy, *found)))
        measured.append(Measured(name, runs, WHOLE * sum(node.gpus for node in nodes)))
    main = next((one for one in measured if one.name == DEFAULT), measured[0])
    asks = read_pods(paths[measured.index(main)])
    gangs = rolegangs.measure(world_of(nodes, asks, seeds[0]))
    return Result(
        (*_figures(main, measured), Figure("openb.role_gang_decision_p99_ms", round(gangs.p99_ms, 3), "ms")),
        (
            *_notes(measured, _published(folder / "expected_allocation.csv")),
            gangs.note,
            *lookahead.notes([world_of(nodes, asks, seed) for seed in seeds[: lookahead.SEEDS]]),
        ),
    )


def _warm_up(nodes: Sequence[Node], asks: Sequence[Ask]) -> None:
    """Compile what decides, or load it, so that no decision's time holds that."""
    world = world_of(nodes[:100], asks, SEEDS[0])
    for policy in POLICIES:
        fill(world, lambda *found, policy=policy: scorer_of(policy, *found))


def seeds_of(asked: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds to run: all by default, so many of them for one number, else those named."""
    if asked == (0,):
        return SEEDS
    return tuple(range(SEEDS[0], SEEDS[0] + asked[0])) if len(asked) == 1 else asked


def scorer_of(policy: str, world: World, fleet: Fleet, kinds: tuple[Kind, ...]) -> Scorer:
    """A policy's scorer for one run."""
    match policy:
        case "FGD":
            return Fragmentation(demand_of(Counter(world.asks), {}), kinds)
        case "first-fit":
            return FirstFit()
        case "best-fit":
            return BestFit(max(n.cpu_milli for n in world.nodes), max(n.gpus for n in world.nodes))
        case _:
            return Learning(fleet, kinds, world.nodes)


def low_end(differences: Sequence[float]) -> float:
    """The low end of the 95 % interval of a mean; -inf for a single value."""
    count = len(differences)
    if count < 2:
        return -math.inf
    t = T[min(count, len(T)) - 1]
    return statistics.fmean(differences) - t * statistics.stdev(differences) / math.sqrt(count)


def _figures(main: Measured, measured: Sequence[Measured]) -> tuple[Figure, ...]:
    seconds = _sorted(measured, "cpu_seconds")
    points = {
        "fgd_difference_points_ci_low": min(one.ahead("FGD") for one in measured),
        "first_fit_difference_points_ci_low": min(one.ahead("first-fit") for one in measured),
        "at_100_difference_points_ci_low": min(one.ahead(_better_at_100(one), is_final=False) for one in measured),
    }
    excess = max(
        100 * (one.failed("ours", when) - one.failed("FGD", when)) / max(1.0, one.arrived(when))
        for one in measured
        for when in (0, 1)
    )
    return (
        Figure(
            "openb.allocation_percent",
            round(statistics.fmean(main.percent("ours")), 3),
            "%",
            ALLOCATION_PERCENT,
            higher_is_better=True,
        ),
        *(Figure(f"openb.{name}", round(low, 3), "points", 0.0, higher_is_better=True) for name, low in points.items()),
        Figure("openb.decision_p99_ms", round(1000 * _p99(seconds), 3), "ms", DECISION_MS),
        Figure("openb.large_failed_excess_percent", round(excess, 2), "%", LARGE_PERCENT),
    )


def _better_at_100(one: Measured) -> str:
    return max(("FGD", "first-fit"), key=lambda policy: statistics.fmean(one.percent(policy, is_final=False)))


def _notes(measured: Sequence[Measured], published: Mapping[tuple[str, str], float]) -> list[str]:
    """The table, a line a list."""
    head = "allocated % at 100 | 130 % load: FGD, first-fit, best-fit, ours; published FGD, BestFit at 130 %;"
    lines = [f"{head} 8-GPU pods failed before 100 % | in all: FGD, first-fit, best-fit, ours of those arrived"]
    for one in measured:
        loads = ", ".join(
            f"{statistics.fmean(one.percent(p, is_final=False)):.2f} | {statistics.fmean(one.percent(p)):.2f}"
            for p in POLICIES
        )
        known, text = published.get((one.name, "06-FGD")), "none published"
        if known is not None:
            off = statistics.fmean(one.percent("FGD")) - known
            is_near = "" if abs(off) <= NEAR_PUBLISHED else ", TOO FAR"
            text = f"published {known:.2f} (ours {off:+.2f}{is_near}), {published[one.name, '05-BestFit']:.2f}"
        failed = ", ".join(f"{one.failed(p, 0):.1f} | {one.failed(p, 1):.1f}" for p in POLICIES)
        lines.append(f"{one.name}: {loads}; {text}; {failed} of {one.arrived(0):.1f} | {one.arrived(1):.1f}")
    for what in ("cpu_seconds", "seconds"):
        times = [1000 * second for second in _sorted(measured, what)]
        clock = "of the processor's time" if what == "cpu_seconds" else "on the clock"
        mean, longest = statistics.fmean(times), times[-1]
        lines.append(f"our decisions, {clock}: mean {mean:.3f} ms, p99 {_p99(times):.2f}, longest {longest:.0f}")
    return lines


def _sorted(measured: Sequence[Measured], what: str) -> list[float]:
    return sorted(second for one in measured for done in one.runs["ours"] for second in getattr(done, what))


def _p99(times: Sequence[float]) -> float:
    return times[int(len(times) * 0.99) - 1]


def _published(path: Path) -> dict[tuple[str, str], float]:
    """Allocation at 130 % load by list and policy, the mean of the published seeds; nothing without the file."""
    if not path.exists():
        return {}
    found: dict[tuple[str, str], list[float]] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault((row["workload"], row["sc_policy"]), []).append(float(row["130"]))
    return {key: statistics.fmean(values) for key, values in found.items()}
