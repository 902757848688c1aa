"""Kueue's generator shape, and a cluster without pods: what is admitted runs for its own time and is finished.

Kueue measures its scheduler so (test/performance/scheduler): 5 cohorts of 6 queues with 20 units each, borrowing up to
100; in each queue 350 small (1 unit, 0.2 s), 100 medium (5 units, 0.5 s) and 50 large (20 units, 1 s) workloads, one
every 0.1, 0.5 and 1.2 s. A unit is one GPU here. Quota alone decides, so all 600 are in one node.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from controlplane.cluster.port import LogLine, Note, Observation, PodPhase, PodSeen, PodSpec
from controlplane.simulator.presets import Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.snapshot import Node
from scheduler.team import Quota, Team

COHORTS, QUEUES, NOMINAL, BORROWING = 5, 6, 20, 100
POOL = Pool("units", "unit")
RUN_FOR = "run-for"  # label: how long the workload runs, in seconds
_QUANTUM = 0.02  # ends are told in steps of this many seconds


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
    """The `Cluster` port without machines. Shared by all threads of one process; nothing of it survives the process."""

    commands_at_once = 1

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._lock = threading.Lock()
        self._changes: list[PodSeen] = []  # in order: a cursor is a number of them
        self._known: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._ends: list[tuple[float, int, PodSeen]] = []
        self._ties = itertools.count()
        self._clock = threading.Thread(target=self._tick, name="podless", daemon=True)
        self._clock.start()

    def now(self) -> float:
        """Real time."""
        return time.time()

    def observe(self, cursor: str | None) -> Observation:
        """Changes since cursor; everything for one that is not ours."""
        with self._lock:
            after = int(cursor) if cursor and cursor.isdigit() else -1
            is_full = not 0 <= after <= len(self._changes)
            pods = {pod.name: pod for pod in self._changes[0 if is_full else after :]}
            nodes = self._nodes if is_full else ()
            return Observation(self.now(), str(len(self._changes)), is_full, tuple(pods.values()), nodes)

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have it called after each change."""
        self._listeners.append(tell)

    def _ring(self) -> None:
        for tell in self._listeners:
            tell()

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Run these from now on."""
        now = self.now()
        with self._lock:
            for pod in pods:
                if pod.name in self._known:
                    continue
                self._known.add(pod.name)
                seen = PodSeen(pod.workload, pod.attempt, pod.rank, pod.node, pod.gpus, PodPhase.RUNNING, now)
                end = now + _run_for(pod)
                over = replace(seen, phase=PodPhase.SUCCEEDED, ended_at=end, exit_code=0)
                self._changes.append(seen)
                heapq.heappush(self._ends, (end, next(self._ties), over))
        self._ring()

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """End these now."""
        with self._lock:
            gone = [
                e for e in self._ends if (e[2].workload, e[2].attempt) == (workload, attempt) and e[2].rank in ranks
            ]
            self._ends = [entry for entry in self._ends if entry not in gone]
            heapq.heapify(self._ends)
            self._changes += (replace(seen, phase=PodPhase.GONE, ended_at=self.now()) for _, _, seen in gone)
        self._ring()

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """Nothing to do."""

    def cordon(self, node: str, on: bool) -> None:
        """Nothing to do."""

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """Nothing to do."""

    def tell(self, notes: Sequence[Note]) -> None:
        """Nobody to tell."""

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        """None."""
        return ()

    def finish(self, workloads: Collection[str]) -> None:
        """End all pods of these well, now."""
        with self._lock:
            over = [entry for entry in self._ends if entry[2].workload in workloads]
            self._ends = [entry for entry in self._ends if entry[2].workload not in workloads]
            heapq.heapify(self._ends)
            self._changes += (replace(seen, ended_at=self.now()) for _, _, seen in over)

    def _tick(self) -> None:
        while True:
            with self._lock:
                ended = list(self._due())
                self._changes += ended
            if ended:
                self._ring()
            time.sleep(_QUANTUM)

    def _due(self) -> Iterator[PodSeen]:
        now = self.now()
        while self._ends and self._ends[0][0] <= now:
            yield heapq.heappop(self._ends)[2]


def _run_for(pod: PodSpec) -> float:
    labels = pod.spec.get("labels")
    return float(labels[RUN_FOR]) if isinstance(labels, dict) else 0.0
