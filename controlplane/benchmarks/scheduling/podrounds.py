"""Pods placed by `schedule`, round after round: what the schedule loop does, without its database.

The machines are in node pools as in the trace `openb` (`simulator/worlds/openb.py`): one pool a GPU model. One team
owns every pool whole and all pods are its work, of one priority and without checkpoints: so nothing is ever taken back,
preempted or moved, and a call that is given several pods serves them in the order in which they came. What production
knows of coming work, these rounds know too: nothing at first, then the last workloads (`placement/forecast.py`),
counted again as often. A snapshot is made from the one before it by what has changed. What a round has placed runs when
the next begins; what it could not place is withdrawn.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.scheduling.arrivals import Filled, World
from controlplane.simulator.worlds import openb
from controlplane.simulator.worlds.presets import quotas_by_weight
from controlplane.simulator.worlds.traces import NodeRow
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Place, Wait
from scheduler.model.partial_cycle import DirtySet, dirty_after
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Team
from scheduler.model.workload import Kind, Phase, ResourceRequest, Workload
from scheduler.placement.forecast import LAST, Asked, demand_of_these, next_count
from scheduler.state.memo import Memo

TEAM = "openb"
TOGETHER = 20  # pods that may share a call


@dataclass(slots=True)
class Decided(Filled):
    """How one run through `schedule` went, and the seconds of each call: on the clock, and of the processor."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


class Rounds:
    """What the loop keeps from one round to the next: the snapshot, what has changed since, what was asked of late."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        machines = pooled(nodes)
        self.snapshot = Snapshot.build(0.0, machines, (Team(TEAM),), quotas_by_weight(machines, {TEAM: 1.0}), ())
        self._settings = Settings()
        self._memo = Memo()
        self._started: list[Workload] = []  # since the last round
        self._withdrawn: list[str] = []
        self._asked: deque[Asked] = deque(maxlen=LAST)
        self._came = 0
        self._count_at = next_count(0)
        self.seconds = self.cpu_seconds = 0.0  # of the last call of `schedule`

    def max_together(self) -> int:
        """How many pods may share the next call: demand is counted by what came up to a pod, never by later ones."""
        return max(1, self._count_at - 1 - self._came)

    def place(self, asks: Sequence[ResourceRequest]) -> list[bool]:
        """These pods arrive, and a round decides on them; which were placed. Raises BenchmarkError."""
        at = float(self._came)
        came = [_workload(number, ask, at) for number, ask in enumerate(asks, self._came + 1)]
        self._came += len(asks)
        self._asked.extend(map(Asked, asks))
        told = self._take(at, came)
        began, began_cpu = time.perf_counter(), time.thread_time()
        decisions = schedule(replace(self.snapshot, scope=told.scope(())), self._settings, self._memo)
        self.seconds, self.cpu_seconds = time.perf_counter() - began, time.thread_time() - began_cpu
        placed = _placed(decisions)
        self.snapshot = self.snapshot.after(decisions)
        self._started = [_running(self.snapshot.workloads[uid], at) for uid in placed]
        self._withdrawn = [workload.id for workload in came if workload.id not in placed]
        return [workload.id in placed for workload in came]

    def _take(self, at: float, came: Sequence[Workload]) -> DirtySet:
        """The next snapshot, and which workloads are to be tried on it (`SnapshotKeeper.take`)."""
        before, changed = self.snapshot, [*self._started, *came]
        told = dirty_after(before.workloads, changed, self._withdrawn)
        self.snapshot = before.replace(at=at, changed=changed, gone=self._withdrawn)
        if self._came >= self._count_at:
            demand = demand_of_these(self._asked, self.snapshot)
            self.snapshot = replace(self.snapshot, demand=demand)
            self._count_at = next_count(self._came)
        if told is None:
            raise BenchmarkError("A round tries all that waits, though nothing became free: mend podrounds.Rounds.")
        return told


def fill(world: World, together: int = TOGETHER) -> Decided:
    """Let all pods of a world arrive; up to so many share a call. Raises BenchmarkError."""
    rounds, done, first = Rounds(world.nodes), Decided(world.capacity), 0
    while first < len(world.arrivals):
        asks = world.arrivals[first : first + min(together, rounds.max_together())]
        for ask, is_placed in zip(asks, rounds.place(asks), strict=True):
            done.count(ask, is_placed=is_placed)
        done.seconds.append(rounds.seconds)
        done.cpu_seconds.append(rounds.cpu_seconds)
        first += len(asks)
    return done


def pooled(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The machines as the trace `openb` has them, in the same order: their pools, racks by name, device memory."""
    rows = [NodeRow(n.name, n.cpu_milli, n.memory, n.gpus, n.model) for n in sorted(nodes, key=lambda n: n.name)]
    made = {node.name: node for node in openb.nodes(rows)}
    return tuple(made[node.name] for node in nodes)


def _workload(number: int, ask: ResourceRequest, at: float) -> Workload:
    uid = f"pod-{number:06}"
    return Workload(uid, uid, TEAM, Kind.TRAINING, ask, seq=number, submitted_at=at, queued_at=at)


def _running(workload: Workload, at: float) -> Workload:
    return replace(workload, phase=Phase.RUNNING, started_at=at, version=workload.version + 1)


def _placed(decisions: Sequence[Decision]) -> list[str]:
    """What was placed, by id, in the order of arrival. Raises BenchmarkError on any other decision."""
    placed = [decision.workload for decision in decisions if isinstance(decision, Place) and not decision.after]
    others = sum(not isinstance(decision, Wait) for decision in decisions) - len(placed)
    if others or placed != sorted(placed):
        raise BenchmarkError("A round made work leave, or did not serve pods in order: mend podrounds.Rounds.")
    return placed
