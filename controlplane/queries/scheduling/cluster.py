"""The machines: zones, racks, nodes, GPUs, and the workloads on each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, QuerySet

from controlplane.cluster.port import PodPhase
from controlplane.models import Gpu, Node, Placement, PlacementState, Takes, Workload
from gpushare.backends.catalogue import enforcer_of
from gpushare.gpu import WHOLE, Enforcer

MANY_NODES = 200  # from so many on their map is put together in two steps
HELD = (PlacementState.BOUND, PlacementState.LEAVING)


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One worker's hold on one GPU, milli-GPU. uid and name are empty where the viewer may not see the workload."""

    team: str
    colour: int
    milli: int
    uid: UUID | None
    name: str
    rank: int
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One device: the workloads on it now, and its last measured use (None = not known)."""

    index: int
    healthy: bool
    duty: float | None
    memory_used: int | None
    tenants: tuple[TenantRow, ...]

    @property
    def held(self) -> int:
        """milli-GPU held."""
        return min(WHOLE, sum(t.milli for t in self.tenants))

    @property
    def computing(self) -> int | None:
        """milli-GPU that compute, as measured; a device without a workload computes nothing. None: not known."""
        if not self.tenants:
            return 0
        return None if self.duty is None else min(self.held, round(self.duty * WHOLE))

    @property
    def free(self) -> int:
        """milli-GPU that something may still take."""
        return WHOLE - self.held if self.healthy else 0


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One machine. memory is MiB, cpu 1/1000 core."""

    name: str
    pool: str
    gpu_model: str
    gpu_memory: int
    cpu_milli: int
    memory: int
    zone: str
    rack: str
    nvlink: int
    ready: bool
    schedulable: bool
    gpus: tuple[GpuRow, ...]
    takes: tuple[str, ...] = ()  # for what new work may take its GPUs: whole, shares
    enforcer: Enforcer = Enforcer.ADVISORY  # what holds a share on it to its part

    @property
    def enforced_by(self) -> str | None:
        """What holds a share on it to its part; None where none may go."""
        return self.enforcer.value if "shares" in self.takes else None

    @property
    def held(self) -> int:
        """milli-GPU held."""
        return sum(g.held for g in self.gpus)

    @property
    def computing(self) -> int | None:
        """milli-GPU that compute, as measured; None where nothing of what is held was."""
        known = [g.computing for g in self.gpus if g.tenants and g.computing is not None]
        return None if not known and self.held else sum(known)

    @property
    def free(self) -> int:
        """milli-GPU that new work may take."""
        return sum(g.free for g in self.gpus) if self.ready and self.schedulable else 0

    @property
    def fragmented(self) -> float | None:
        """Part of what is free that lies on GPUs others have a share of, where no whole GPU fits; None: all is held."""
        return fragmentation(self.free, self.whole_free)

    @property
    def whole_free(self) -> int:
        """GPUs on which nothing lies and something may."""
        return sum(g.healthy and not g.tenants for g in self.gpus) if self.ready and self.schedulable else 0


@dataclass(frozen=True, slots=True)
class RackRow:
    """The nodes of one rack."""

    zone: str
    name: str
    nodes: tuple[NodeRow, ...]

    @property
    def whole_free(self) -> int:
        """Free whole GPUs."""
        return sum(n.whole_free for n in self.nodes)

    @property
    def gpus(self) -> int:
        """All its GPUs."""
        return sum(len(n.gpus) for n in self.nodes)


def fragmentation(free: int, whole_free: int) -> float | None:
    """The part of the free milli-GPU that is not in whole GPUs; None where nothing is free."""
    return 1 - whole_free * WHOLE / free if free else None


@dataclass(frozen=True, slots=True)
class Room:
    """What is free of some machines: milli-GPU, whole GPUs, and the most whole ones on one machine."""

    free: int
    whole: int
    on_one_node: int

    @property
    def fragmented(self) -> float | None:
        """Part of the free milli-GPU where no whole GPU fits."""
        return fragmentation(self.free, self.whole)


def room(found: Iterable[RackRow]) -> Room:
    """The room on all machines of these racks."""
    nodes = [node for rack in found for node in rack.nodes]
    most = max((node.whole_free for node in nodes), default=0)
    return Room(sum(node.free for node in nodes), sum(node.whole_free for node in nodes), most)


def is_large() -> bool:
    """Whether the map of all machines takes a while to put together."""
    return Node.objects.count() > MANY_NODES


def racks(visible: Collection[str] | None, pool: str = "") -> tuple[RackRow, ...]:
    """All machines by zone and rack; tenants of teams outside `visible` (None: all) stay nameless. Three queries."""
    found = Node.objects.select_related("pool")
    by_rack: dict[tuple[str, str], list[NodeRow]] = defaultdict(list)
    for one in _rows(found.filter(pool__name=pool) if pool else found, visible):
        by_rack[one.zone, one.rack].append(one)
    return tuple(RackRow(zone, rack, tuple(nodes)) for (zone, rack), nodes in sorted(by_rack.items()))


def node(name: str, visible: Collection[str] | None) -> NodeRow | None:
    """One machine, or None."""
    return next(iter(_rows(Node.objects.filter(name=name).select_related("pool"), visible)), None)


def hosts(names: Sequence[str], visible: Collection[str] | None) -> tuple[NodeRow, ...]:
    """The machines of these names."""
    return tuple(_rows(Node.objects.filter(name__among=names).select_related("pool"), visible))


def running(found: Collection[Workload]) -> dict[UUID, int]:
    """How many workers of each of these workloads run; role members are not counted."""
    up = Placement.objects.filter(workload__among=[w.pk for w in found], pod_phase=PodPhase.RUNNING.value)
    for w in found:
        if w.roles:
            up = up.exclude(workload=w.pk, rank__lt=sum(count for _, count, _ in w.roles))
    counted = up.exclude(state=PlacementState.RELEASED).order_by().values_list("workload_id").annotate(n=Count("pk"))
    return dict(counted)


def _rows(nodes: Iterable[Node], visible: Collection[str] | None) -> Iterable[NodeRow]:
    wanted = sorted(nodes, key=lambda n: n.name)
    few = [n.name for n in wanted] if len(wanted) <= 50 else None  # all of them: no list of names is needed
    live = Placement.objects.filter(state__in=HELD)
    held = tenants(live if few is None else live.filter(node__among=few), visible)
    measured = Gpu.objects.values_list("node_id", "index", "duty", "memory_used")
    if few is not None:
        measured = measured.filter(node__name__among=few)
    use = {(pk, index): (duty, memory) for pk, index, duty, memory in measured}
    for n in wanted:
        yield row(n, use, held)


def row(
    n: Node,
    use: Mapping[tuple[int, int], tuple[float | None, int | None]],
    held: Mapping[tuple[str, int], Sequence[TenantRow]],
) -> NodeRow:
    """A machine, with the use of its GPUs by (id, index) and their tenants by (name, index)."""
    lost = set(n.lost_gpus)
    gpus = tuple(
        GpuRow(i, i not in lost, *use.get((n.pk, i), (None, None)), tuple(held.get((n.name, i), ())))
        for i in range(n.gpu_count)
    )
    return NodeRow(
        n.name,
        n.pool.name,
        n.gpu_model,
        n.gpu_memory,
        n.cpu_milli,
        n.memory,
        n.zone,
        n.rack,
        n.nvlink,
        n.ready,
        n.schedulable,
        gpus,
        _takes(n),
        enforcer_of(n.pool.enforcer, n.enforcer, enforces=n.enforces_limits),
    )


def _takes(n: Node) -> tuple[str, ...]:
    """For what new work may take its GPUs, by its label and its pool."""
    if not n.gpu_count:
        return ()
    takes = {"whole": n.pool.takes != Takes.SHARES, "shares": n.takes_shares and n.pool.takes != Takes.WHOLE}
    return tuple(what for what, is_taken in takes.items() if is_taken)


def tenants(held: QuerySet[Placement], visible: Collection[str] | None) -> dict[tuple[str, int], list[TenantRow]]:
    """The workloads on each GPU by these placements, by (node, index); nameless outside `visible` (None: all).

    One query.
    """
    columns = ("node", "gpus", "milli", "state", "rank", "workload_id", "workload__name")
    found: dict[tuple[str, int], list[TenantRow]] = defaultdict(list)
    rows = held.order_by("id").values_list(*columns, "workload__team__name", "workload__team__colour")
    for name, gpus, milli, state, rank, uid, workload, team, colour in rows:
        may_see = visible is None or team in visible
        for index in gpus:
            tenant = TenantRow(
                team,
                colour,
                milli // len(gpus),
                uid if may_see else None,
                workload if may_see else "",
                rank,
                state == PlacementState.LEAVING,
            )
            found[name, index].append(tenant)
    return found
