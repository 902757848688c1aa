"""The machines: zones, racks, nodes, GPUs, and the workloads on each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, QuerySet

from controlplane.cluster.port import PodPhase
from controlplane.models import Gpu, Node, Placement, PlacementState, Takes, Workload, bulk
from gpushare.backends.catalogue import enforcer_of
from gpushare.gpu import WHOLE, Enforcer

MANY_NODES = 200  # from so many on their map is put together in two steps
RACK_PART = 60  # nodes of a rack that are shown together; of a larger one the next ones are another part
FEW_NODES = 500  # of so many only what lies on them is read
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


@dataclass(frozen=True, slots=True)
class RackSum:
    """A rack, or of a large one so many nodes, without them. first, last: their names, where it is a part."""

    zone: str
    name: str
    nodes: int
    gpus: int
    whole_free: int
    first: str = ""
    last: str = ""


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


def rack_sums(pool: str = "") -> tuple[tuple[RackSum, ...], Room]:
    """The racks with what is free there, and what is on all machines. Two queries, and no row of a workload."""
    columns = ("zone", "rack", "name", "gpu_count", "lost_gpus", "ready", "schedulable", "pool__name")
    held = _held_by_node()
    by_rack: dict[tuple[str, str], list[tuple[str, int, int, int]]] = defaultdict(list)
    for zone, rack, name, count, lost, ready, schedulable, of_pool in bulk.select(Node, columns, order=("name",)):
        if pool not in ("", of_pool):
            continue
        of_each = [held[name].get(i, 0) for i in range(count) if i not in lost] if ready and schedulable else []
        whole = sum(milli == 0 for milli in of_each)
        by_rack[zone, rack].append((name, count, whole, sum(WHOLE - min(WHOLE, milli) for milli in of_each)))
    every = [one for rows in by_rack.values() for one in rows]
    most = max((whole for _, _, whole, _ in every), default=0)
    total = Room(sum(free for *_, free in every), sum(whole for _, _, whole, _ in every), most)
    return tuple(part for key in sorted(by_rack) for part in _parts(*key, by_rack[key])), total


def sums_of(rack: RackRow) -> tuple[RackSum, ...]:
    """A rack, or the parts of a large one, without its nodes."""
    rows = [(node.name, len(node.gpus), node.whole_free, node.free) for node in rack.nodes]
    return tuple(_parts(rack.zone, rack.name, rows))


def _parts(zone: str, rack: str, rows: Sequence[tuple[str, int, int, int]]) -> Iterable[RackSum]:
    for start in range(0, len(rows), RACK_PART):
        part = rows[start : start + RACK_PART]
        ends = (part[0][0], part[-1][0]) if len(rows) > RACK_PART else ("", "")
        gpus, whole = sum(count for _, count, _, _ in part), sum(free for _, _, free, _ in part)
        yield RackSum(zone, rack, len(part), gpus, whole, *ends)


def _held_by_node() -> Mapping[str, Mapping[int, int]]:
    """milli-GPU held on each device, by node and index."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for name, gpus, milli in bulk.select(Placement, ("node", "gpus", "milli"), {"state__in": HELD}):
        on = found[name]
        for index in gpus:
            on[index] = on.get(index, 0) + milli // len(gpus)
    return found


def of_models(models: Collection[str], visible: Collection[str] | None) -> tuple[tuple[NodeRow, ...], int]:
    """The machines with these GPU models (none named: all), of a large cluster the first few; how many there are."""
    found = Node.objects.filter(gpu_model__among=list(models)) if models else Node.objects.all()
    names = list(found.order_by("zone", "rack", "name").values_list("name", flat=True)[: MANY_NODES + 1])
    if len(names) <= MANY_NODES:
        rows = {row.name: row for row in hosts(names, visible)}
        return tuple(rows[name] for name in names if name in rows), len(names)
    rows = {row.name: row for row in hosts(names[:RACK_PART], visible)}
    return tuple(rows[name] for name in names[:RACK_PART] if name in rows), found.count()


def nodes_of(zone: str, rack: str, first: str = "", pool: str = "") -> list[str]:
    """The names of the machines of a rack, of a large one those of the part that begins with `first`. One query."""
    found = Node.objects.filter(zone=zone, rack=rack, name__gte=first)
    found = found.filter(pool__name=pool) if pool else found
    return list(found.order_by("name").values_list("name", flat=True)[:RACK_PART])


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
    few = [n.name for n in wanted] if len(wanted) <= FEW_NODES else None  # nearly all: no list of names is needed
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
    is_whole = n.pool.takes != Takes.SHARES and n.enforcer != Enforcer.ON_DEMAND
    takes = {"whole": is_whole, "shares": n.takes_shares and n.pool.takes != Takes.WHOLE}
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
