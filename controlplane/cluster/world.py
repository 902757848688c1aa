"""The rows of the simulated cluster, and what follows from them: the pods on each device, what changed, what is due."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.settings import Settings
from controlplane.cluster import draws
from controlplane.cluster.entities import Attempt, Entity, Machine, Pod, Service, Volume
from controlplane.cluster.port import DEFERRED, INFEASIBLE, PodPhase, PodSeen, PodSpec, pod_name
from controlplane.cluster.serving.history import Followed
from controlplane.cluster.work import Profiles, Work, read_work
from gpushare.gpu import WHOLE
from gpushare.residency import Node as Residents
from scheduler.model.snapshot import Node
from scheduler.model.workload import Kind

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z
TABLES: tuple[type[Entity], ...] = (Machine, Pod, Attempt, Volume, Service)
# Events of one moment: first machines, then pods, then attempts; within that by name. So their order never depends
# on when it was asked for.
ORDER = {kind.TABLE: i for i, kind in enumerate(TABLES)}


@dataclass(frozen=True, slots=True)
class Conditions:
    """The circumstances of a simulated cluster. Seconds are the cluster's.

    node_mtbf_seconds: mean time between failures of one node (None: nodes do not fail by themselves).
    slow_nodes: nodes whose devices compute slower, as hot ones do, and how many times as long they take.
    has_requests: False where services are not looked at, so that their requests need not be simulated.
    Ended pods are forgotten once they are older than keep_seconds and not among the newest keep_ended.
    """

    seed: int = 0
    node_mtbf_seconds: float | None = None
    node_repair_seconds: float = 1800.0
    keep_seconds: float = 3600.0
    keep_ended: int = 2000
    slow_nodes: Mapping[str, float] = field(default_factory=dict)
    has_requests: bool = True
    move_seconds: float = Settings().host_wake_seconds  # of a replica's weights, between device and node
    start: float = START  # where the clock of a new cluster starts


class World:
    """The state. Only `lifecycle.Lifecycle` changes it."""

    def __init__(self, conditions: Conditions, profiles: Profiles) -> None:
        self.conditions = conditions
        self.profiles = profiles
        self.runs: dict[str, tuple[int, Followed]] = {}  # what is known of services' requests: (attempt, run)
        self.minutes: dict[str, tuple[int, Residents]] = {}  # of nodes on demand: where what was (ondemand.py)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.now = self.conditions.start
        self.revision = 0
        self.forgotten = 0  # the highest revision of what has been forgotten: older cursors are too old
        self.overcommits = 0
        self.machines: dict[str, Machine] = {}
        self.pods: dict[str, Pod] = {}
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.volumes: dict[str, Volume] = {}
        self.services: dict[str, Service] = {}
        self.occupants: dict[tuple[str, int], list[Pod]] = {}
        self.on_node: dict[str, dict[str, Pod]] = {}
        self.ended: dict[str, Pod] = {}  # in the order of their end
        self.changes: dict[tuple[str, str], Entity] = {}  # (table, key) in the order of their last change
        self.heap: list[tuple[float, int, str]] = []
        self.dirty: dict[tuple[str, str], Entity | None] = {}  # what the store has not got yet; None = deleted
        self.common_model: str | None = None

    # --- rows --------------------------------------------------------------------------------

    def load(self, rows: Iterable[Entity]) -> None:
        """Take in rows from the store: new ones, or new versions of those we have. Derives everything again."""
        known: dict[tuple[str, str], Entity] = {(row.TABLE, row.key): row for row in self.rows()}
        known.update({(row.TABLE, row.key): row for row in rows})
        now, revision, forgotten, overcommits = self.now, self.revision, self.forgotten, self.overcommits
        self.clear()
        self.now, self.revision, self.forgotten, self.overcommits = now, revision, forgotten, overcommits
        for row in sorted(known.values(), key=lambda row: (ORDER[row.TABLE], row.key)):
            self._take(row)
        self._derive()
        self.dirty.clear()

    def rows(self) -> Iterator[Entity]:
        """Every row."""
        for table in (self.machines, self.pods, self.attempts, self.volumes, self.services):
            yield from table.values()

    def dismiss(self, key: tuple[str, str]) -> None:
        """Forget a row that another process has deleted; `load` comes after it."""
        table, name = key
        match table:
            case Pod.TABLE:
                self.pods.pop(name, None)
            case Attempt.TABLE:
                workload, _, attempt = name.rpartition("-")
                self.attempts.pop((workload, int(attempt)), None)
            case Volume.TABLE:
                self.volumes.pop(name, None)

    def _take(self, row: Entity) -> None:
        match row:
            case Machine():
                self.machines[row.key] = row
            case Pod():
                self.pods[row.key] = row
            case Attempt():
                row.work = self.work_of(row.workload, row.spec)
                row.pods = {}
                self.attempts[row.workload, row.attempt] = row
            case Volume():
                self.volumes[row.key] = row
            case Service():
                row.work = self.work_of(row.workload, row.spec)
                self.services[row.key] = row
        self.schedule(row)

    def _derive(self) -> None:
        for pod in self.pods.values():
            self.attempts[pod.group].pods[pod.rank] = pod
        # Its end is a pod's last change, so this is the order in which they ended, within a second too.
        over = sorted((p for p in self.pods.values() if p.is_over), key=lambda p: p.revision)
        self.ended = {pod.name: pod for pod in over}
        for pod in sorted(self.pods.values(), key=lambda p: (p.created_at, p.name)):
            if not pod.is_over:
                self.occupy(pod)
        seen: list[Machine | Pod] = [*self.machines.values(), *self.pods.values()]
        self.changes = {(row.TABLE, row.key): row for row in sorted(seen, key=lambda row: row.revision)}
        self.note_models()

    def work_of(self, uid: str, spec: dict[str, object]) -> Work:
        """The work of a workload."""
        return read_work(uid, spec, self.profiles, self.conditions.seed)

    # --- writing -----------------------------------------------------------------------------

    def keep(self, row: Entity) -> None:
        """The row has changed: the store must get it."""
        self.dirty[row.TABLE, row.key] = row

    def change(self, row: Machine | Pod) -> None:
        """The row has changed, and observers see it."""
        self.revision += 1
        row.revision = self.revision
        self.changes.pop((row.TABLE, row.key), None)
        self.changes[row.TABLE, row.key] = row
        self.keep(row)

    def schedule(self, row: Entity) -> None:
        """Put the row's event, if it has one, into the queue."""
        due = getattr(row, "due", None)
        if due is not None:
            heapq.heappush(self.heap, (due, ORDER[row.TABLE], row.key))

    def since(self, revision: int) -> Iterator[Entity]:
        """Machines and pods changed after this revision, newest first."""
        for row in reversed(self.changes.values()):
            if getattr(row, "revision", 0) <= revision:
                return
            yield row

    # --- time --------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When the next event is; drops events that were called off."""
        while self.heap:
            due, order, key = self.heap[0]
            row = self._row(order, key)
            if row is not None and getattr(row, "due", None) == due:
                return due
            heapq.heappop(self.heap)
        return None

    def pop(self, until: float) -> Entity | None:
        """The next row with an event up to `until`; its event is taken off the queue, not off the row."""
        due = self.next_due()
        if due is None or due > until:
            return None
        _, order, key = heapq.heappop(self.heap)
        return self._row(order, key)

    def _row(self, order: int, key: str) -> Entity | None:
        kind = TABLES[order]
        if kind is Machine:
            return self.machines.get(key)
        if kind is Pod:
            return self.pods.get(key)
        workload, _, attempt = key.rpartition("-")
        return self.attempts.get((workload, int(attempt)))

    # --- devices -----------------------------------------------------------------------------

    def occupy(self, pod: Pod) -> None:
        """Give a pod its devices and its part of the node."""
        for index in pod.gpus:
            self.occupants.setdefault((pod.node, index), []).append(pod)
        self.on_node.setdefault(pod.node, {})[pod.name] = pod

    def vacate(self, pod: Pod) -> None:
        """Take them back."""
        for index in pod.gpus:
            self.occupants[pod.node, index].remove(pod)
        del self.on_node[pod.node][pod.name]

    def lacks(self, spec: PodSpec) -> str:
        """Why the node cannot take this pod beside those it has, as a kubelet would say it; empty if it can."""
        node = self.machines[spec.node].node
        for index in spec.gpus:
            there = self.occupants.get((spec.node, index), ())
            if not 0 <= index < node.gpus or index in node.lost:
                return "OutOfGpu"
            if sum(p.milli for p in there) + spec.milli > WHOLE:
                return "OutOfGpu"
            if sum(p.device_memory for p in there) + spec.gpu_memory > node.gpu_memory:
                return "OutOfGpuMemory"
        pods = self.on_node.get(spec.node, {}).values()
        if spec.cpu_milli and sum(p.cpu_milli for p in pods) + spec.cpu_milli > node.cpu_milli:
            return "OutOfCpu"
        if spec.memory and sum(p.node_memory for p in pods) + spec.memory > node.memory:
            return "OutOfMemory"
        return ""

    def is_over_committed(self, pod: Pod) -> bool:
        """Whether its node or a device of it holds more memory than it has."""
        machine = self.machines.get(pod.node)
        if machine is None:
            return False
        on_devices = (self.occupants.get((pod.node, index), ()) for index in pod.gpus)
        is_full = any(sum(p.device_memory for p in there) > machine.node.gpu_memory for there in on_devices)
        there = self.on_node.get(pod.node, {}).values()
        return is_full or sum(p.node_memory for p in there) > machine.node.memory

    def refuses(self, pod: Pod, cpu_milli: int, memory: int) -> tuple[str, str]:
        """Why the node does not give this pod so much, as a kubelet would say it; empty if it does."""
        machine = self.machines.get(pod.node)
        if machine is None or (cpu_milli, memory) == (pod.cpu_milli, pod.memory):
            return "", ""
        if machine.refuses:
            return machine.refuses, "The node was told to refuse resizes"
        others = [p for p in self.on_node.get(pod.node, {}).values() if p is not pod]
        for what, wanted, has, capacity, taken in (
            ("cpu", cpu_milli, pod.cpu_milli, machine.node.cpu_milli, sum(p.cpu_milli for p in others)),
            ("memory", memory, pod.memory, machine.node.memory, sum(p.node_memory for p in others) + pod.host_memory),
        ):
            if wanted > has and wanted > capacity:
                return INFEASIBLE, f"Node has not enough capacity: {what}, requested: {wanted}, capacity: {capacity}"
            if wanted > has and taken + wanted > capacity:
                return DEFERRED, f"Node has not enough room: {what}, requested: {wanted}, used: {taken}"
        return "", ""

    def there(self, workload: str, attempt: int, ranks: Iterable[int]) -> list[Pod]:
        """Those of these pods that are not over."""
        found = (self.pods.get(pod_name(workload, attempt, rank)) for rank in ranks)
        return [pod for pod in found if pod is not None and not pod.is_over]

    def seen(self, pod: Pod) -> PodSeen:
        """A pod as observations have it."""
        attempt = self.attempts[pod.group]
        progress, checkpointed_at = None, None
        if attempt.work is not None and attempt.work.kind == Kind.TRAINING:
            progress, checkpointed_at = attempt.checkpoint_at(self.now)
        is_known = pod.phase == PodPhase.RUNNING and pod.wanted is None
        return PodSeen(
            pod.workload, pod.attempt, pod.rank, pod.node, pod.gpus, pod.phase, pod.started_at, pod.ended_at,
            pod.exit_code, pod.reason, checkpointed_at, progress,
            pod.cpu_milli if is_known else None, pod.memory if is_known else None, *pod.refused,
            pod.weights, pod.weights_at,
        )  # fmt: skip

    def running_on(self, node: str, index: int) -> list[Pod]:
        """Pods that use this device now."""
        there = self.occupants.get((node, index), ())
        running = (p for p in there if p.phase == PodPhase.RUNNING and p.stopped_at is None)
        return sorted(running, key=lambda pod: pod.name)  # the order of a sum of floats must not depend on history

    # --- nodes and forgetting ----------------------------------------------------------------

    def put_nodes(self, nodes: Sequence[Node]) -> None:
        """Add nodes, or replace what is known of them."""
        for node in nodes:
            machine = self.machines.get(node.name)
            if machine is None:
                machine = Machine(node)
                self.machines[node.name] = machine
                machine.due = self.fails_at(machine)
                self.schedule(machine)
            machine.node, machine.is_removed = node, False
            self.change(machine)
        self.note_models()

    def fails_at(self, machine: Machine) -> float | None:
        """When this node fails next by itself."""
        mean = self.conditions.node_mtbf_seconds
        if mean is None:
            return None
        seconds = draws.exponential(mean, self.conditions.seed, "node", machine.node.name, machine.failures)
        return self.now + max(1.0, float(round(seconds)))

    def alter(self, machine: Machine, **changes: object) -> None:
        """Change what a node is."""
        machine.node = replace(machine.node, **changes)  # type: ignore[arg-type]
        self.change(machine)

    def note_models(self) -> None:
        """Find the most common GPU model, on which durations hold that say no model."""
        count: dict[str, int] = {}
        for machine in self.machines.values():
            count[machine.node.model] = count.get(machine.node.model, 0) + machine.node.gpus
        self.common_model = max(sorted(count), key=lambda model: count[model], default=None)

    def forget(self) -> None:
        """Drop pods that ended long ago."""
        limit = self.now - self.conditions.keep_seconds
        while len(self.ended) > self.conditions.keep_ended:
            pod = next(iter(self.ended.values()))
            if pod.ended_at is None or pod.ended_at > limit:
                return
            self._drop(pod)

    def _drop(self, pod: Pod) -> None:
        del self.ended[pod.name], self.pods[pod.name]
        self.changes.pop((pod.TABLE, pod.key), None)
        self.forgotten = max(self.forgotten, pod.revision)
        self.dirty[pod.TABLE, pod.key] = None
        attempt = self.attempts[pod.group]
        del attempt.pods[pod.rank]
        if not attempt.pods:
            del self.attempts[pod.group]
            self.dirty[attempt.TABLE, attempt.key] = None
