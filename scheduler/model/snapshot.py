"""The whole input of a round: frozen objects, and numpy columns beside them for what loops search.

A snapshot is a value. `replace` and `after` give the next one and adapt the columns by
the difference only, so one new job costs microseconds even with 10,000 GPUs.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpushare.backends.catalogue import demands_text, is_advisory, unmet
from gpushare.backends.gives import Device, NotGiven, part
from gpushare.gpu import WHOLE, Enforcer, Share
from scheduler.model.applied import becomes, leaves
from scheduler.model.decision import Decision, Evict, Offload, Place, Shrink, Wait
from scheduler.model.demand import NO_DEMAND, Demand
from scheduler.model.history import UNKNOWN, History
from scheduler.model.partial_cycle import PartialCycle
from scheduler.model.team import Budget, Quota, Team, Use
from scheduler.model.workload import Assignment, Phase, Workload

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_KEPT = 10_000  # shares of which it is remembered which nodes give them
IDLE, FUTURE_IDLE = 0, 1  # first axis of Columns: what is idle now; once all that leaves has left (as in Volcano)
COMPUTE, MEMORY = 0, 1  # second axis: milli-GPU or 1/1000 core; MiB


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. gpu_memory is MiB of each device; nvlink is the devices in one NVLink domain (0: none)."""

    name: str
    pool: str
    model: str
    gpus: int
    gpu_memory: int
    cpu_milli: int
    memory: int
    rack: str = ""
    zone: str = ""
    nvlink: int = 0
    ready: bool = True
    schedulable: bool = True
    lost: tuple[int, ...] = ()  # indices of unhealthy devices
    takes_whole: bool = True  # whether new work with whole GPUs may go there
    takes_shares: bool = True  # likewise shares
    enforces_limits: bool = True  # whether something on it holds a share to its limit
    enforcer: str = ""  # what holds its shares to their parts, of Enforcer; of a node as observed: what its label names

    @property
    def is_usable(self) -> bool:
        """Whether new work may go there."""
        return self.ready and self.schedulable

    @property
    def is_advisory(self) -> bool:
        """Whether nothing on it says that it holds a share to its part: by the name of what does, else by its word."""
        return is_advisory(Enforcer(self.enforcer)) if self.enforcer else not self.enforces_limits


@dataclass(frozen=True, eq=False)
class Flavor:
    """The nodes of one pool with one GPU model, as a mask over all nodes (Kueue: ResourceFlavor)."""

    pool: str
    model: str
    nodes: Bools
    gpu_memory: int  # MiB of the largest device


@dataclass(frozen=True)
class Inventory:
    """The nodes as columns; N nodes, G devices, devices of a node lie side by side."""

    nodes: tuple[Node, ...]

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each node by its name."""
        return {n.name: i for i, n in enumerate(self.nodes)}

    @cached_property
    def offset(self) -> Ints:
        """Shape [N + 1]: devices of node i are offset[i]..offset[i + 1]."""
        return np.concatenate(([0], np.cumsum([n.gpus for n in self.nodes], dtype=np.int64))).astype(np.int64)

    @cached_property
    def node_of(self) -> Ints:
        """Shape [G]: the node of each device."""
        return np.repeat(np.arange(len(self.nodes), dtype=np.int64), [n.gpus for n in self.nodes])

    @cached_property
    def usable(self) -> Bools:
        """Shape [N]: nodes that take new work."""
        return np.array([n.is_usable for n in self.nodes], dtype=np.bool_)

    @cached_property
    def takes_whole(self) -> Bools:
        """Shape [N]: nodes whose GPUs may be taken whole."""
        return np.array([n.takes_whole for n in self.nodes], dtype=np.bool_)

    @cached_property
    def advisory(self) -> Bools:
        """Shape [G]: devices on which nothing says that it holds a share to its part."""
        return np.array([n.is_advisory for n in self.nodes], dtype=np.bool_)[self.node_of]

    @cached_property
    def takes_shares(self) -> Bools:
        """Shape [N]: nodes whose GPUs may be shared."""
        return np.array([n.takes_shares for n in self.nodes], dtype=np.bool_)

    def gives(self, share: Share, demands: tuple[str, ...]) -> Bools:
        """Shape [N]: nodes whose back-end can give this share, and guarantees all that is demanded of it."""
        found = self._given.get((share, demands))
        if found is None:
            known = {kind: self._refused(kind, share, demands) is None for kind in set(self._share_kinds)}
            found = np.array([known[kind] for kind in self._share_kinds], dtype=np.bool_)
            if len(self._given) < MAX_KEPT:
                self._given[share, demands] = found
        return found

    def refusals(self, share: Share, demands: tuple[str, ...], among: Bools) -> list[tuple[str, str]]:
        """Why the back-ends of these nodes (shape [N]) do not give a share: (pool, sentence) once each, sorted."""
        found = set()
        for at in np.flatnonzero(among).tolist():
            if told := self._refused(self._share_kinds[at], share, demands):
                found.add((self.nodes[at].pool, told))
        return sorted(found)

    @cached_property
    def _share_kinds(self) -> tuple[tuple[str, str, int], ...]:
        """By node: back-end, model and memory of its GPUs, by which it gives a share or not."""
        return tuple((n.enforcer, n.model, n.gpu_memory) for n in self.nodes)

    @cached_property
    def _given(self) -> dict[tuple[Share, tuple[str, ...]], Bools]:
        return {}

    @staticmethod
    def _refused(kind: tuple[str, str, int], share: Share, demands: tuple[str, ...]) -> str | None:
        name, model, memory = kind
        enforcer = Enforcer(name or Enforcer.ADVISORY)
        if lacks := unmet(enforcer, demands):
            return f"shares are enforced by {enforcer}, not with {demands_text(lacks)}"
        told = part(enforcer, share, Device(model, memory))
        return told.sentence if isinstance(told, NotGiven) else None

    @cached_property
    def healthy_milli(self) -> dict[str, int]:
        """milli-GPU by pool of the devices that can hold work; cordoned nodes keep theirs."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if node.ready:
                found[node.pool] = found.get(node.pool, 0) + (node.gpus - len(node.lost)) * WHOLE
        return found

    @cached_property
    def gpu_memory(self) -> Ints:
        """Shape [N]: MiB of each device of a node; 0 without devices."""
        return np.array([n.gpu_memory if n.gpus else 0 for n in self.nodes], dtype=np.int64)

    @cached_property
    def whole_node(self) -> tuple[tuple[int, ...], ...]:
        """The indices of all devices of each node."""
        return tuple(tuple(range(node.gpus)) for node in self.nodes)

    @cached_property
    def flavors(self) -> tuple[Flavor, ...]:
        """The nodes with GPUs by pool and model, sorted."""
        kinds = [(n.pool, n.model) if n.gpus else None for n in self.nodes]
        masks = {kind: np.array([k == kind for k in kinds], dtype=np.bool_) for kind in sorted({k for k in kinds if k})}
        return tuple(Flavor(*kind, mask, int(self.gpu_memory[mask].max())) for kind, mask in masks.items())

    @cached_property
    def rack_of(self) -> Ints:
        """Shape [N]: number of each node's rack. A node without one is a rack of its own."""
        return numbered([(n.zone, n.rack) if n.rack else ("", "", n.name) for n in self.nodes])

    @cached_property
    def zone_of(self) -> Ints:
        """Shape [N]: number of each node's zone. A node without one is in the zone of its rack, else alone."""
        return numbered([(n.zone,) if n.zone else (n.rack or n.name, "") for n in self.nodes])

    @cached_property
    def link_of(self) -> Ints:
        """Shape [G]: number of each device's NVLink domain. Without NVLink a device is a domain of its own."""
        return numbered([(i, index // max(1, n.nvlink)) for i, n in enumerate(self.nodes) for index in range(n.gpus)])

    @cached_property
    def node_of_link(self) -> Ints:
        """Shape [L]: the node of each NVLink domain."""
        nodes = np.zeros(int(self.link_of.max(initial=-1)) + 1, dtype=np.int64)
        nodes[self.link_of] = self.node_of
        return nodes

    @cached_property
    def gpu_capacity(self) -> Ints:
        """Shape [2, G]: milli-GPU and MiB of each device; 0 where it is lost."""
        out = np.zeros((2, int(self.offset[-1])), dtype=np.int64)
        for i, node in enumerate(self.nodes):
            first = int(self.offset[i])
            out[COMPUTE, first : first + node.gpus] = WHOLE
            out[MEMORY, first : first + node.gpus] = node.gpu_memory
            for lost in node.lost:
                out[:, first + lost] = 0
        return out

    @cached_property
    def node_capacity(self) -> Ints:
        """Shape [2, N]: 1/1000 cores and MiB of each node."""
        return np.array([[n.cpu_milli for n in self.nodes], [n.memory for n in self.nodes]], dtype=np.int64)


def numbered(keys: Iterable[Hashable]) -> Ints:
    """Number equal keys alike, from 0, in the order of first sight."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Columns:
    """What is taken. gpu: [2 (IDLE, FUTURE_IDLE), 2 (COMPUTE, MEMORY), G]; node: [2, 2, N].

    Not idle is what is bound, leaving workers included; not idle in the future is what is bound or reserved, leaving
    ones not. New work must fit into both, or, when it waits for what leaves, into what is idle in the future.
    """

    gpu: Ints
    node: Ints

    def copy(self) -> "Columns":
        """Own arrays, for a plan to change."""
        return Columns(self.gpu.copy(), self.node.copy())

    def add(self, inventory: Inventory, workload: Workload, sign: int = 1) -> None:
        """Add (or take away, sign -1) a workload's placement, in place."""
        for worker in workload.placement:
            for when in states_counted(workload, worker):
                self.add_worker(inventory, workload, worker, when, sign)

    def exchange(self, inventory: Inventory, old: Workload, new: Workload) -> None:
        """Have a workload's placement as it is now instead of as it was, in place: what stays is left alone."""
        if old.ask is not new.ask or old.roles is not new.roles or len(old.placement) != len(new.placement):
            self.add(inventory, old, -1)
            self.add(inventory, new)
            return
        for was, now in zip(old.placement, new.placement, strict=True):
            before, after = states_counted(old, was), states_counted(new, now)
            is_same = was is now or _takes(was) == _takes(now)
            for when in before:
                if not is_same or when not in after:
                    self.add_worker(inventory, old, was, when, -1)
            for when in after:
                if not is_same or when not in before:
                    self.add_worker(inventory, new, now, when, 1)

    def add_worker(self, inventory: Inventory, workload: Workload, worker: Assignment, when: int, sign: int) -> None:
        """Add one worker to one of the two states, in place. A node that is gone holds nothing."""
        at = inventory.index.get(worker.node)
        if at is None:
            return
        cpu_milli, host_memory = workload.on_node(worker)
        self.node[when, COMPUTE, at] += sign * cpu_milli
        self.node[when, MEMORY, at] += sign * host_memory
        first, after = int(inventory.offset[at]), int(inventory.offset[at + 1])
        milli, memory = workload.on_device(worker)
        if worker.gpus == inventory.whole_node[at]:  # most of large gangs: one sum instead of one a device
            self.gpu[when, COMPUTE, first:after] += sign * milli
            self.gpu[when, MEMORY, first:after] += sign * memory
            return
        for index in worker.gpus:
            if first + index < after:
                self.gpu[when, COMPUTE, first + index] += sign * milli
                if memory:
                    self.gpu[when, MEMORY, first + index] += sign * memory


def _takes(worker: Assignment) -> tuple[object, ...]:
    """All by which it is told what a worker takes where."""
    return worker.rank, worker.node, worker.gpus, worker.lender, worker.weights


def is_staying(workload: Workload, worker: Assignment) -> bool:
    """Whether a worker holds its place later, and would not if its workload were made to leave: not a reserved one."""
    return not (worker.leaving or worker.reserved or workload.phase == Phase.RESERVED)


def states_counted(workload: Workload, worker: Assignment) -> tuple[int, ...]:
    """In which of the two states a worker counts."""
    if worker.reserved or workload.phase == Phase.RESERVED:
        return (FUTURE_IDLE,)
    return (IDLE,) if worker.leaving else (IDLE, FUTURE_IDLE)


@dataclass(frozen=True)
class Snapshot:
    """Everything a round may look at. `at` is the cluster clock, in seconds."""

    at: float
    inventory: Inventory
    teams: tuple[Team, ...]
    quotas: tuple[Quota, ...]
    workloads: Mapping[str, Workload]
    columns: Columns
    use: tuple[Use, ...] = ()  # recent usage by team and pool; a team without a row used nothing
    budgets: tuple[Budget, ...] = ()  # hard ones that are used up
    demand: Demand = NO_DEMAND
    history: History = UNKNOWN  # what ended work teaches about how long work runs
    scope: PartialCycle | None = None  # the claimants that a partial cycle tries; None: a full cycle

    @staticmethod
    def build(
        at: float,
        nodes: Iterable[Node],
        teams: Iterable[Team],
        quotas: Iterable[Quota],
        workloads: Iterable[Workload],
        use: Iterable[Use] = (),
        budgets: Iterable[Budget] = (),
        demand: Demand = NO_DEMAND,
        history: History = UNKNOWN,
    ) -> "Snapshot":
        """A snapshot from scratch; the columns are a pure function of the rest."""
        inventory = Inventory(tuple(nodes))
        gpus, count = int(inventory.offset[-1]), len(inventory.nodes)
        columns = Columns(np.zeros((2, 2, gpus), dtype=np.int64), np.zeros((2, 2, count), dtype=np.int64))
        by_id = {w.id: w for w in workloads}
        for workload in by_id.values():
            columns.add(inventory, workload)
        return Snapshot(
            at,
            inventory,
            tuple(teams),
            tuple(quotas),
            by_id,
            columns,
            use=tuple(use),
            budgets=tuple(budgets),
            demand=demand,
            history=history,
        )

    def replace(
        self, *, at: float | None = None, changed: Iterable[Workload] = (), gone: Iterable[str] = ()
    ) -> "Snapshot":
        """The same world later, with some workloads changed or new and some ended."""
        workloads, columns = dict(self.workloads), self.columns.copy()
        for workload in changed:
            if (old := workloads.get(workload.id)) is not None:
                columns.exchange(self.inventory, old, workload)
            else:
                columns.add(self.inventory, workload)
            workloads[workload.id] = workload
        for uid in gone:
            if (old := workloads.pop(uid, None)) is not None:
                columns.add(self.inventory, old, -1)
        at = self.at if at is None else at
        same = self.use, self.budgets, self.demand, self.history
        return Snapshot(at, self.inventory, self.teams, self.quotas, workloads, columns, *same)

    def after(self, decisions: Iterable[Decision]) -> "Snapshot":
        """The world once these decisions are committed."""
        changed: dict[str, Workload] = {}
        for decision in decisions:
            before = changed.get(decision.workload) or self.workloads.get(decision.workload)
            if before is not None:
                changed[decision.workload] = applied(before, decision, self.at)
        return self.replace(changed=changed.values())


def applied(workload: Workload, decision: Decision, at: float) -> Workload:
    """One workload after one decision."""
    fields = becomes(workload, decision, at)
    if isinstance(decision, Wait):
        return replace(workload, **fields)
    return replace(workload, placement=_places(workload, decision), version=workload.version + 1, **fields)


def _places(workload: Workload, decision: Place | Evict | Shrink | Offload) -> tuple[Assignment, ...]:
    """The places that it has then."""
    if isinstance(decision, Offload):
        return tuple(replace(a, weights=decision.to) if a.rank in decision.ranks else a for a in workload.placement)
    if isinstance(decision, Place):
        workers = (replace(a, reserved=bool(decision.after)) for a in decision.workers)
        return tuple(sorted((*workload.placement, *workers), key=lambda a: a.rank))
    if workload.phase == Phase.RESERVED and isinstance(decision, Evict):
        return ()
    return tuple(replace(a, leaving=a.leaving or leaves(decision, a.rank)) for a in workload.placement)
