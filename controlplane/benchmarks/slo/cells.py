"""One policy on one trace and seed, judged: what `slo` counts of it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.benchmarks.slo import batching, onset, policies, traces
from controlplane.benchmarks.slo.judge import Judged, Policy, judge
from controlplane.cluster import reclaims

STARTS = (30.0, 90.0, 300.0)  # s until a replica serves that has to start
WAKES = (2.0, 10.0)  # the same of one that is loaded
ROOM, MORE_ROOM = 1.5, 3.0  # replicas at most, times what the busiest minute needs
HEADROOM, HEADROOMS = "headroom", (0.1, 0.25, 0.5, 1.0)
LEAST_CALL_SECONDS = 5.0
CALL_SECONDS = max(LEAST_CALL_SECONDS, reclaims.measured().gpu_seconds_lost)  # of one GPU
SLEEPERS = ("standby", "batching")  # what begins so has a standby, whose GPUs are lent
HOUR = 3600.0
# Hours of a clairvoyant greedy plan over pure work, for replicas that start in 30, 90 and 300 s; docs/objectives.md.
ORACLE: Mapping[str, tuple[float, float, float]] = {
    "azure": (1.05, 1.08, 1.08), "azure8": (1.03, 1.04, 1.06), "mooncake": (1.08, 1.08, 1.10),
    "genaiQ1": (1.05, 1.07, 1.15), "genaiQ34": (1.23, 1.39, 1.64), "genai13d": (1.35, 1.40, 1.52),
    "ramp": (1.08, 1.13, 1.19), "step": (1.13, 1.16, 1.24), "spike": (1.32, 1.43, 1.79), "diurnal": (1.07, 1.09, 1.12),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy on one trace and seed.

    start: s until a replica serves. first_late: of the first minute's arrivals, %. onset: minutes of it. hours: those
    that replicas are held in which they do not sleep; gross: those of all replicas that are allowed. calls, lends: how
    often one was called, and let go; resting: hours of those let go before the product would lend them. oracle: its
    hours for a start of 30 s. waited_percent: of all requests: late, and only because they waited. room: replicas at
    most, times what the busiest minute needs.
    """

    policy: str
    trace: str
    seed: int
    start: float
    late_percent: float
    bad_windows: int
    attained: bool
    hours: float
    calls: int
    turns_per_hour: float
    oracle: float
    waited_percent: float
    room: float = ROOM
    first_late: float = 0.0
    onset: int = 0
    gross: float = 0.0
    lends: int = 0
    resting: float = 0.0

    def net(self, call_seconds: float = CALL_SECONDS, start: float = STARTS[0]) -> float:
        """Net hours over those of the oracle of replicas that start in so many seconds.

        What is let go counts until the product would lend it (`judge.LEND_AFTER`).
        """
        factors = ORACLE[self.trace]
        own = self.oracle * factors[STARTS.index(start)] / factors[0]
        return (self.hours + self.resting + self.calls * call_seconds / HOUR) / own

    @property
    def net_at_once(self) -> float:
        """The same at CALL_SECONDS, were a replica lent from its last answer on."""
        return self.net() - self.resting / self.oracle

    @property
    def over_own(self) -> float:
        """Hours held over those of the oracle of the cell's own start."""
        return self.net(0.0, self.start)


def law(name: str, data: Path, seed: int) -> list[Cell]:
    """The law on one trace: with standby and without, with room for more, and where replicas batch."""
    trace = traces.load(name, data, seed)
    rooms = (ROOM, MORE_ROOM)
    found = [judged("standby", trace, seed, wake, policies.standby, room) for wake in WAKES for room in rooms]
    with_tokens = traces.with_tokens(trace, data, seed)
    found += [batched(with_tokens, seed, room) for room in rooms]
    return [*found, *(judged("alone", trace, seed, start, policies.alone) for start in STARTS)]


def baselines(name: str, data: Path, seed: int, start: float) -> list[Cell]:
    """Each setting of each family on one trace."""
    trace = traces.load(name, data, seed)
    return [judged(label, trace, seed, start, make) for label, make in policies.BASELINES.items()]


def beside(name: str, data: Path, seed: int) -> list[Cell]:
    """HPA with the law's standby, and static replicas."""
    trace = traces.load(name, data, seed)
    found = [judged(f"standby {label}", trace, seed, WAKES[0], m) for label, m in policies.WITH_STANDBY.items()]
    return [*found, static(trace, seed)]


def headroom(name: str, data: Path, seed: int) -> list[Cell]:
    """The law alone with replicas on top of those that it needs, as each of these parts of them."""
    trace = traces.load(name, data, seed)
    makes = [(f"{HEADROOM} {part:g}", policies.with_headroom(part)) for part in HEADROOMS]
    return [judged(label, trace, seed, start, make) for label, make in makes for start in STARTS]


def roomier(name: str, data: Path, seed: int, labels: tuple[str, ...]) -> list[Cell]:
    """The law alone and these settings, with twice as many replicas at most."""
    trace = traces.load(name, data, seed)
    makes = {"alone": policies.alone, **{label: policies.BASELINES[label] for label in labels}}
    return [judged(label, trace, seed, s, make, MORE_ROOM) for label, make in makes.items() for s in STARTS]


def static(trace: traces.Trace, seed: int) -> Cell:
    """The fewest replicas that attain it from the beginning to the end."""
    return judged("static", trace, seed, STARTS[0], in_hindsight)


def in_hindsight(trace: traces.Trace, start: float) -> Policy:
    """The same as a policy: as many replicas as attain the trace, which is known to its end."""

    def is_enough(replicas: int) -> bool:
        policy = policies.static(replicas)(trace, start)
        return onset.is_attained(judge(trace, policy, start=start, most=trace.max_replicas), start)

    few, many = 0, trace.max_replicas
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return policies.static(many)(trace, start)


def judged(label: str, trace: traces.Trace, seed: int, start: float, make: policies.Make, room: float = ROOM) -> Cell:
    """One policy where replicas have slots."""
    most = round(trace.max_replicas * room / ROOM)
    found = judge(trace, make(trace, start), start=start, most=most)
    oracle = trace.work_gpu_seconds / HOUR * ORACLE[trace.name][0]
    return told(label, trace, seed, start, found, oracle, most, room)


def batched(trace: traces.Trace, seed: int, room: float = ROOM) -> Cell:
    """The law with standby, and replicas that batch. The work with full batches stands for an oracle's hours."""
    most, work = round(batching.max_replicas(trace) * room / ROOM), float(batching.engine_seconds(trace).sum()) / HOUR
    policy = policies.standby(trace, WAKES[0])
    found = judge(trace, policy, start=WAKES[0], most=most, kind=batching.BatchingService)
    return told("batching", trace, seed, WAKES[0], found, work, most, room)


def told(
    label: str, trace: traces.Trace, seed: int, start: float, found: Judged, oracle: float, most: int,
    room: float = ROOM,
) -> Cell:  # fmt: skip
    """What is counted of a judgement."""
    return Cell(
        policy=label, trace=trace.name, seed=seed, start=start, late_percent=found.late_percent,
        bad_windows=len(found.bad_windows), attained=onset.is_attained(found, start), hours=found.hours,
        calls=found.starts, turns_per_hour=found.turns / (trace.seconds / HOUR), oracle=oracle,
        waited_percent=100.0 * found.waited / max(1, int(found.arrivals.sum())), room=room,
        first_late=100.0 * float(found.late[0]) / max(1, int(found.arrivals[0])),
        onset=int(onset.onset(found.arrivals, start).sum()), gross=most * trace.seconds / HOUR, lends=found.lends,
        resting=found.resting if label.startswith(SLEEPERS) else 0.0,  # others let go what they do not hold any more
    )  # fmt: skip


def of(cells: Iterable[Cell], policy: str, start: float | None = None, room: float = ROOM) -> list[Cell]:
    """Those of a policy; start None: of any start."""
    return [c for c in cells if c.policy == policy and c.room == room and (start is None or c.start == start)]


def worst(cells: Iterable[Cell]) -> float:
    """The largest part that was late, %."""
    return round(max(c.late_percent for c in cells), 4)


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return round(math.exp(sum(logs) / len(logs)), 3)
