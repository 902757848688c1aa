"""The ledger of GPUs: who holds which part of each, what of it was asked and what is measured, and what holds it so.

All devices are only counted and put in order; what lies on them is read for one page at a time.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controlplane.cluster.port import PodPhase
from controlplane.domain.holds import Hold
from controlplane.domain.ids import uuids
from controlplane.domain.ondemand import is_on_demand
from controlplane.jobspec.podsets import role_ask
from controlplane.models import Gpu, Node, Placement, PlacementState, Workload
from controlplane.queries.scheduling import cluster
from controlplane.queries.scheduling.cluster import HELD, GpuRow, NodeRow
from gpushare.gpu import WHOLE

Key = tuple[str, int]  # name of a node, index of a device on it


@dataclass(frozen=True, slots=True)
class Entry:
    """One worker's hold on one device. uid and name are empty where the viewer may not see the workload.

    guarantee and limit are milli-GPU: what it always gets, and the most that it may use. memory is the MiB that it may
    take; 0: not said. duty, 0..1, and memory_used, MiB, are measured of it; None: not known. on_gpu: of a notebook on
    demand the GPU of the node that its memory is on, IN_HOST_MEMORY if on none; its duty is of that GPU's time. It is
    listed with the device on which its guarantee is counted.
    """

    team: str
    colour: int
    uid: UUID | None
    name: str
    kind: str
    rank: int
    hold: Hold
    guarantee: int
    limit: int
    memory: int
    duty: float | None
    memory_used: int | None
    is_leaving: bool
    on_gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the ledger: its machine, itself without tenants, and who is on it."""

    node: NodeRow
    gpu: GpuRow
    entries: tuple[Entry, ...]

    @property
    def neighbours(self) -> int:
        """How many others each worker on it has beside it."""
        return max(0, len(self.entries) - 1)

    @property
    def held(self) -> int:
        """milli-GPU that are guaranteed to those on it, what leaves among them."""
        return min(WHOLE, sum(one.guarantee for one in self.entries))


@dataclass(frozen=True, slots=True)
class _Seat:
    """A worker as its placement has it."""

    uid: UUID
    attempt: int
    rank: int
    guarantee: int
    is_asleep: bool
    lender: str
    is_leaving: bool
    runs: bool
    own_duty: float | None  # 0..1, of the device that it shares
    on_gpu: int | None
    workload: Mapping[str, Any]


def keys(pool: str = "", node: str | None = None, *, part: str = "", is_shared: bool = False) -> list[Key]:
    """All devices in the ledger's order: by node and index. One query; with is_shared two.

    node: the whole name of the machine; part: a part of it. is_shared: only devices on which somebody has less than
    the whole: a share, or a worker on a lent GPU.
    """
    found = Node.objects.filter(name__icontains=part) if part else Node.objects.all()
    found = found.filter(pool__name=pool) if pool else found
    counts = dict((found if node is None else found.filter(name=node)).values_list("name", "gpu_count"))
    if not is_shared:
        return [(name, index) for name in sorted(counts) for index in range(counts[name])]
    parts = Placement.objects.filter(state__in=HELD, milli__lt=WHOLE)
    rows = (parts if node is None else parts.filter(node=node)).order_by().values_list("node", "gpus")
    return sorted({(name, index) for name, gpus in rows for index in gpus if index < counts.get(name, 0)})


def devices(wanted: Sequence[Key], visible: Collection[str] | None) -> list[Device]:
    """These devices with who is on them, in their order; workloads of teams outside `visible` (None: all) are nameless.

    Four queries at most. A device that is gone by now is left out.
    """
    names = sorted({name for name, _ in wanted})
    measured = Gpu.objects.filter(node__name__among=names)
    use = {(pk, index): (duty, memory) for pk, index, duty, memory in measured.values_list(*_USE)}
    found = Node.objects.filter(name__among=names).select_related("pool")
    nodes = {n.name: cluster.row(n, use, {}) for n in found}
    seats = _seats(names)
    sharers = _sharers({seat.lender for there in seats.values() for seat in there if seat.lender})
    out = []
    for name, index in wanted:
        row = nodes.get(name)
        if row is None or index >= len(row.gpus):
            continue
        gpu, there = row.gpus[index], seats.get((name, index), ())
        entries = tuple(_entry(seat, row, gpu, len(there), sharers, visible) for seat in there)
        out.append(Device(row, gpu, entries))
    return out


_USE = ("node_id", "index", "duty", "memory_used")
_OF_WORKLOAD = (
    "workload__name", "workload__kind", "workload__share_limit", "workload__gpu_memory", "workload__roles",
    "workload__team__name", "workload__team__colour", "workload__offloads",
)  # fmt: skip
_PLACE = (
    "workload_id",
    "attempt",
    "rank",
    "node",
    "gpus",
    "milli",
    "state",
    "asleep_at",
    "lender",
    "pod_phase",
    "own_duty",
    "on_gpu",
)


def _seats(nodes: Sequence[str]) -> dict[Key, list[_Seat]]:
    """The workloads on each device of these nodes, in the order in which they came. One query."""
    live = Placement.objects.filter(node__among=nodes, state__in=HELD).order_by("id")
    found: dict[Key, list[_Seat]] = defaultdict(list)
    columns = (*_PLACE, *_OF_WORKLOAD)
    for uid, attempt, rank, node, gpus, milli, state, asleep_at, lender, phase, own, on, *more in live.values_list(
        *columns
    ):
        for index in gpus:
            seat = _Seat(
                uid, attempt, rank, milli // len(gpus), asleep_at is not None, lender, state == PlacementState.LEAVING,
                phase == PodPhase.RUNNING.value, own, on, dict(zip(_OF_WORKLOAD, more, strict=True)),
            )  # fmt: skip
            found[node, index].append(seat)
    return found


def _sharers(lenders: Collection[str]) -> set[str]:
    """Which of these lenders have a share of the GPU that they lend; the others have all of it. One query, or none."""
    if not lenders:
        return set()
    found = Workload.objects.filter(pk__among=uuids(lenders), share_guarantee__gt=0)
    return {str(pk) for pk in found.values_list("pk", flat=True)}


def _entry(
    seat: _Seat, node: NodeRow, gpu: GpuRow, there: int, sharers: Collection[str], visible: Collection[str] | None
) -> Entry:
    w = seat.workload
    may_see = visible is None or w["workload__team__name"] in visible
    hold = _hold(seat, sharers)
    # Then what is measured of the device is its own.
    is_alone = there == 1 and seat.runs and hold is not Hold.ON_DEMAND
    limit, memory = _may(seat, node)
    return Entry(
        team=w["workload__team__name"],
        colour=w["workload__team__colour"],
        uid=seat.uid if may_see else None,
        name=w["workload__name"] if may_see else "",
        kind=w["workload__kind"],
        rank=seat.rank,
        hold=hold,
        guarantee=seat.guarantee,
        limit=limit,
        memory=memory,
        duty=gpu.duty if is_alone else seat.own_duty if seat.runs else None,
        memory_used=gpu.memory_used if is_alone else None,
        is_leaving=seat.is_leaving,
        on_gpu=seat.on_gpu if seat.runs else None,
    )


def _hold(seat: _Seat, sharers: Collection[str]) -> Hold:
    if seat.lender:
        return Hold.HARVEST if seat.lender in sharers else Hold.LENT
    if seat.is_asleep:
        return Hold.STANDBY
    if is_on_demand(seat.workload["workload__kind"], seat.workload["workload__offloads"]):
        return Hold.ON_DEMAND
    return Hold.WHOLE if seat.guarantee >= WHOLE else Hold.SHARE


def _may(seat: _Seat, node: NodeRow) -> tuple[int, int]:
    """(limit, memory): the most that it may use of the device, milli-GPU and MiB."""
    if seat.guarantee >= WHOLE:
        return WHOLE, node.gpu_memory
    ask = role_ask(seat.workload["workload__roles"], seat.rank) if seat.workload["workload__roles"] else None
    if ask is not None and ask.share:
        return (WHOLE if seat.lender else ask.share.limit), ask.share.memory
    return (WHOLE if seat.lender else seat.workload["workload__share_limit"]), seat.workload["workload__gpu_memory"]
