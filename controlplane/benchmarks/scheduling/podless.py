"""Kueue's generator shape, and clusters without machines: what is placed runs, and ends when it is told to.

Kueue measures its scheduler so (test/performance/scheduler): 5 cohorts of 6 queues with 20 units each, borrowing up to
100; in each queue 350 small (1 unit, 0.2 s), 100 medium (5 units, 0.5 s) and 50 large (20 units, 1 s) workloads, one
every 0.1, 0.5 and 1.2 s. A unit is one GPU here. Quota alone decides, so all 600 are in one node.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from controlplane.cluster.port import Address, LogLine, Note, Observation, PodPhase, PodSeen, PodSpec, Split, pod_name
from controlplane.simulator.worlds.presets import Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

COHORTS, QUEUES, NOMINAL, BORROWING = 5, 6, 20, 100
POOL = Pool("units", "unit")
RUN_FOR = "run-for"  # label: how long the workload runs, in seconds


@dataclass(frozen=True, slots=True)
class Shape:
    """One class of the generator's workloads; seconds."""

    name: str
    priority: str
    units: int
    count: int  # in each queue
    every: float
    runs: float


SHAPES = (
    Shape("small", "low", 1, 350, 0.1, 0.2),
    Shape("medium", "normal", 5, 100, 0.5, 0.5),
    Shape("large", "high", 20, 50, 1.2, 1.0),
)
TOTAL = COHORTS * QUEUES * sum(shape.count for shape in SHAPES)


def preset() -> Preset:
    """The teams and quotas: a team for each cohort, with a team for each of its queues."""
    cohorts = [f"cohort-{c}" for c in range(COHORTS)]
    queues = [Team(f"{cohort}-queue-{q}", cohort) for cohort in cohorts for q in range(QUEUES)]
    node = Node("units", POOL.name, POOL.gpu_model, COHORTS * QUEUES * NOMINAL, 80 * 1024, 1_000_000_000, 1_000_000_000)
    return Preset(
        name="generator",
        load=1.0,
        seed=0,
        nodes=(node,),
        pools=(POOL,),
        teams=(*map(Team, cohorts), *queues),
        quotas=tuple(Quota(team.name, POOL.name, NOMINAL * WHOLE, BORROWING * WHOLE) for team in queues),
        arrivals=(),
    )


def arrivals(part: float = 1.0) -> list[tuple[float, dict[str, object]]]:
    """(seconds after the start, job file), in order; `part` of the generator's counts."""
    teams = [team.name for team in preset().teams if team.parent]
    made = [
        (number * shape.every, _document(shape, team, number))
        for shape in SHAPES
        for number in range(max(1, round(shape.count * part)))
        for team in teams
    ]
    return sorted(made, key=lambda one: one[0])


def _document(shape: Shape, team: str, number: int) -> dict[str, object]:
    return {
        "type": "training",
        "name": f"{shape.name}-{number}",
        "team": team,
        "image": "registry.example/none:1",
        "priority_class": shape.priority,
        "resources": {"gpus": shape.units, "cpu": "1m", "memory": "1Mi"},
        "labels": {RUN_FOR: f"{shape.runs:g}"},
    }


class Podless:
    """The `Cluster` port without machines, for one thread: what it does can be observed at once."""

    commands_at_once = 1

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._changes: list[PodSeen] = []  # in order: a cursor is a number of them
        self._dropped = 0  # how many changes before these were observed, and are kept no more
        self._told = 0  # of all changes, how many the last observation knew
        self._known: set[str] = set()
        self._running: dict[str, PodSeen] = {}
        self._pods: dict[str, list[str]] = {}  # the names of those that run, by workload

    def now(self) -> float:
        """Real time."""
        return time.time()

    def observe(self, cursor: str | None) -> Observation:
        """Changes since cursor; everything for one that is not ours: what runs, and what has ended since it was asked.

        What was told is dropped: one thread asks, and writes down what it is told before it asks again.
        """
        last = self._dropped + len(self._changes)
        after = int(cursor) if cursor and cursor.isdigit() else -1
        is_full = not self._dropped <= after <= last
        since = self._told if is_full else after
        del self._changes[: since - self._dropped]
        self._dropped, self._told = since, last
        pods = dict(self._running) if is_full else {}
        pods |= {pod.name: pod for pod in self._changes}
        nodes = self._nodes if is_full else ()
        return Observation(self.now(), str(last), is_full, tuple(pods.values()), nodes)

    def resume(self, pods: Sequence[PodSeen]) -> None:
        """These run already, as another process of ours had started them."""
        for seen in pods:
            self._known.add(seen.name)
            self._run(seen)

    def on_news(self, tell: Callable[[], None]) -> None:
        """Nothing to tell: what commands it also observes it."""

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Run these from now on."""
        now = self.now()
        for pod in pods:
            if pod.name not in self._known:
                self._known.add(pod.name)
                seen = PodSeen(pod.workload, pod.attempt, pod.rank, pod.node, pod.gpus, PodPhase.RUNNING, now)
                self._run(seen)
                self._changes.append(seen)

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """End these now."""
        for rank in ranks:
            name = pod_name(workload, attempt, rank)
            if seen := self._running.pop(name, None):
                self._pods[workload].remove(name)
                self._changes.append(replace(seen, phase=PodPhase.GONE, ended_at=self.now()))

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """Nothing to do."""

    def held(self) -> frozenset[tuple[str, int]]:
        """Nothing is shared."""
        return frozenset()

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """Nothing to do."""

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """Nothing to do."""

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """Nothing to do."""

    def keep_address(self, address: Address, *, on: bool) -> None:
        """Nothing to do."""

    def guard(self, address: Address, least: int) -> None:
        """Nothing to do."""

    def cordon(self, node: str, on: bool) -> None:
        """Nothing to do."""

    def split(self, split: Split) -> None:
        """Nothing to do."""

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """Nothing to do."""

    def publish(self, notes: Sequence[Note]) -> None:
        """There are no pods to show them on."""

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        """None."""
        return ()

    def finish(self, workloads: Collection[str]) -> None:
        """End all pods of these well, now."""
        for workload in sorted(workloads):
            for name in self._pods.pop(workload, ()):
                seen = self._running.pop(name)
                over = replace(seen, phase=PodPhase.SUCCEEDED, ended_at=self.now(), exit_code=0)
                self._changes.append(over)

    def _run(self, seen: PodSeen) -> None:
        self._running[seen.name] = seen
        self._pods.setdefault(seen.workload, []).append(seen.name)
