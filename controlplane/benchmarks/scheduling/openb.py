"""`openb`: how many GPUs get allocated by `schedule`, against FGD, first fit and best fit in the same order of arrival.

Twelve lists of Alibaba's pods, ten seeds each, and five lists made of them (`openblists`); `arrivals` says how a run
goes, `podrounds` how the pods go through `schedule`. FGD knows the whole list's frequencies, as its authors' does, and
like the other two places a pod on any machine; ours knows only the pods it has seen. A decision is timed as one call of
`schedule` with one new pod, before anything else runs. What a gang with roles costs is measured apart (`rolegangs`).
"""

import csv
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.benchmarks.harness import cores
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.scheduling import lookahead, podrounds, rolegangs
from controlplane.benchmarks.scheduling.arrivals import Filled, Scorer, World, fill, read_nodes, read_pods, world_of
from controlplane.benchmarks.scheduling.openblists import generated
from controlplane.benchmarks.scheduling.podrounds import Decided
from gpushare.gpu import WHOLE
from scheduler.model.demand import demand_of
from scheduler.model.snapshot import Node
from scheduler.model.workload import ResourceRequest
from scheduler.placement.fgd import Fragmentation
from scheduler.placement.fits import BestFit, FirstFit
from scheduler.placement.fleet import Kind
from scheduler.placement.rows import Fleet

SEEDS = tuple(range(42, 52))  # the published ones
DEFAULT = "default"
ALLOCATION_PERCENT, DECISION_MS, LARGE_PERCENT = 96.2, 10.0, 2.0
SHARED_CALL_POINTS = 0.05  # of what several pods in a call may change
NEAR_PUBLISHED = 0.15  # points between our FGD and the published one
BASELINES = ("FGD", "first-fit", "best-fit")
POLICIES = (*BASELINES, "ours")
FEW_ARRIVALS = 2_000  # are over before other processes have started
# Student's t, two-sided 95 %, by degrees of freedom.
T = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)

Pods = tuple[ResourceRequest, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One list and seed, for all policies."""

    name: str
    nodes: tuple[Node, ...]
    pods: Pods
    seed: int

    @property
    def world(self) -> World:
        """Its machines and arrivals."""
        return world_of(self.nodes, self.pods, self.seed)


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


@dataclass(frozen=True, slots=True)
class Timed:
    """One list and seed with a pod a call, while nothing else runs; and the same with as many a call as may be."""

    name: str
    alone: Decided
    shared: Filled

    @property
    def difference(self) -> float:
        """What several pods in a call change of the allocation, in points: at 100 % or at 130 % load, the larger."""
        pairs = (self.alone.at_100, self.shared.at_100), (self.alone.final, self.shared.final)
        return max(abs(100 * (one - other) / self.alone.capacity) for one, other in pairs)


def run(options: Options, progress: Progress) -> Result:
    """Fill the cluster with each list, seed and policy. Raises BenchmarkError."""
    folder = options.data / "openb"
    nodes = read_nodes(options.nodes or folder / "nodes_gpu.csv")
    lists = _lists([options.pods] if options.pods else sorted(folder.glob("pods_*.csv")), folder)
    made = {} if options.pods else generated(lists, nodes)
    main = DEFAULT if DEFAULT in lists else next(iter(lists))
    seeds = seeds_of(options.seeds)
    jobs = [Job(name, nodes, pods, seed) for name, pods in {**lists, **made}.items() for seed in seeds]
    first = next(job for job in jobs if job.name == main)
    is_short = sum(len(job.pods) for job in jobs) <= FEW_ARRIVALS
    progress(0.0, f"{main}, seed {first.seed}, one pod a call")
    [(_, alone)] = cores.each(one_by_one, [first], 0 if is_short else 1)
    runs = _all(jobs, 0 if is_short else min(cores.usable(), len(jobs)), progress)
    capacity = WHOLE * sum(node.gpus for node in nodes)
    shared, own = (_measured(names, jobs, runs, capacity) for names in (lists, made))
    timed = Timed(main, alone, runs[jobs.index(first)]["ours"])
    progress(1.0, "gangs with roles, and a queue")
    gangs = rolegangs.measure(first.world)
    return Result(
        (*_figures(main, shared, own, timed), Figure("openb.role_gang_decision_p99_ms", round(gangs.p99_ms, 3), "ms")),
        (
            *_notes([*shared, *own], timed, _published(folder / "expected_allocation.csv")),
            gangs.note,
            *lookahead.notes([job.world for job in jobs if job.name == main][: lookahead.SEEDS]),
        ),
    )


def measure(job: Job) -> dict[str, Filled]:
    """One list and seed by every policy."""
    world = job.world
    found: dict[str, Filled] = {
        policy: fill(world, lambda *parts, policy=policy: scorer_of(policy, *parts)) for policy in BASELINES
    }
    return {**found, "ours": podrounds.fill(world)}


def one_by_one(job: Job) -> Decided:
    """One list and seed by ours, a pod a call; what decides is compiled or loaded before."""
    podrounds.fill(world_of(job.nodes[:100], job.pods[:300], job.seed))
    return podrounds.fill(job.world, together=1)


def _all(jobs: Sequence[Job], others: int, progress: Progress) -> list[dict[str, Filled]]:
    """What `measure` gives for each, by so many other processes."""
    found: dict[int, dict[str, Filled]] = {}
    for number, one in cores.each(measure, jobs, others):
        found[number] = one
        progress(len(found) / len(jobs), f"{jobs[number].name}, seed {jobs[number].seed}")
    return [found[number] for number in range(len(jobs))]


def _lists(paths: Sequence[Path], folder: Path) -> dict[str, Pods]:
    if not paths:
        raise BenchmarkError(f"There are no lists of pods in {folder}. Set WEFT_DATA to the folder with the traces.")
    return {path.name.removesuffix(".gz").removesuffix(".csv").removeprefix("pods_"): read_pods(path) for path in paths}


def _measured(
    names: Mapping[str, Pods], jobs: Sequence[Job], runs: Sequence[Mapping[str, Filled]], capacity: int
) -> list[Measured]:
    return [
        Measured(
            name,
            {p: [run[p] for job, run in zip(jobs, runs, strict=True) if job.name == name] for p in POLICIES},
            capacity,
        )
        for name in names
    ]


def seeds_of(asked: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds to run: all by default, so many of them for one number, else those named."""
    if asked == (0,):
        return SEEDS
    return tuple(range(SEEDS[0], SEEDS[0] + asked[0])) if len(asked) == 1 else asked


def scorer_of(policy: str, world: World, _: Fleet, kinds: tuple[Kind, ...]) -> Scorer:
    """The scorer of one of the `BASELINES` for one run."""
    match policy:
        case "FGD":
            return Fragmentation(demand_of(Counter(world.asks), {}), kinds)
        case "first-fit":
            return FirstFit()
        case _:
            return BestFit(max(n.cpu_milli for n in world.nodes), max(n.gpus for n in world.nodes))


def low_end(differences: Sequence[float]) -> float:
    """The low end of the 95 % interval of a mean; -inf for a single value."""
    count = len(differences)
    if count < 2:
        return -math.inf
    t = T[min(count, len(T)) - 1]
    return statistics.fmean(differences) - t * statistics.stdev(differences) / math.sqrt(count)


def _figures(main: str, shared: Sequence[Measured], made: Sequence[Measured], timed: Timed) -> tuple[Figure, ...]:
    """The figures of the lists that are shared, and apart from them of those made."""
    of_main = next(one for one in shared if one.name == main)
    points = {
        "fgd_difference_points_ci_low": min(one.ahead("FGD") for one in shared),
        "first_fit_difference_points_ci_low": min(one.ahead("first-fit") for one in shared),
        "at_100_difference_points_ci_low": min(_ahead(one, BASELINES, is_final=False) for one in shared),
    }
    if made:
        points |= {
            "generated_difference_points_ci_low": min(_ahead(one, BASELINES[:2]) for one in made),
            "generated_at_100_difference_points_ci_low": min(
                _ahead(one, BASELINES[:2], is_final=False) for one in made
            ),
        }
    excess = max(
        100 * (one.failed("ours", when) - one.failed("FGD", when)) / max(1.0, one.arrived(when))
        for one in shared
        for when in (0, 1)
    )
    return (
        Figure(
            "openb.allocation_percent",
            round(statistics.fmean(of_main.percent("ours")), 3),
            "%",
            ALLOCATION_PERCENT,
            higher_is_better=True,
        ),
        *(Figure(f"openb.{name}", round(low, 3), "points", 0.0, higher_is_better=True) for name, low in points.items()),
        Figure("openb.decision_p99_ms", round(1000 * _p99(timed.alone.seconds), 3), "ms", DECISION_MS),
        Figure("openb.decision_cpu_p99_ms", round(1000 * _p99(timed.alone.cpu_seconds), 3), "ms"),
        Figure("openb.shared_call_difference_points", round(timed.difference, 3), "points", SHARED_CALL_POINTS),
        Figure("openb.large_failed_excess_percent", round(excess, 2), "%", LARGE_PERCENT),
    )


def _ahead(one: Measured, of: Sequence[str], *, is_final: bool = True) -> float:
    """How far we are ahead of the best of these on one list: see `Measured.ahead`."""
    return one.ahead(max(of, key=lambda policy: statistics.fmean(one.percent(policy, is_final))), is_final)


def _notes(measured: Sequence[Measured], timed: Timed, published: Mapping[tuple[str, str], float]) -> list[str]:
    """The table, a line a list; then the times."""
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
    for clock, seconds in (("on the clock", timed.alone.seconds), ("of the processor's time", timed.alone.cpu_seconds)):
        times = [1000 * second for second in sorted(seconds)]
        mean, longest = statistics.fmean(times), times[-1]
        lines.append(
            f"{len(times)} calls of `schedule` with one new pod each ({timed.name}), {clock}: "
            f"mean {mean:.2f} ms, p99 {_p99(times):.2f}, longest {longest:.0f}"
        )
    lines.append(f"up to {podrounds.TOGETHER} pods a call instead of one: {timed.difference:.3f} points of difference")
    return lines


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[max(0, int(len(times) * 0.99) - 1)]


def _published(path: Path) -> dict[tuple[str, str], float]:
    """Allocation at 130 % load by list and policy, the mean of the published seeds; nothing without the file."""
    if not path.exists():
        return {}
    found: dict[tuple[str, str], list[float]] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault((row["workload"], row["sc_policy"]), []).append(float(row["130"]))
    return {key: statistics.fmean(values) for key, values in found.items()}
