"""The cluster map at a moment that has gone by, from what is kept for good: the ledger of placements, and events.

Held is exact: a placement says when its hold began and ended. Whether a machine was there, ready and in use for new
work, and which of its GPUs were lost, follows from its row by taking back each change since. What computed is not
kept by GPU, and machines that are gone since are no rows any more: neither is told.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from django.db.models import Q

from controlplane.models import Event, Node, Placement
from controlplane.queries.scheduling import cluster
from controlplane.queries.scheduling.cluster import NodeRow, RackRow, RackSum

BACK = 86_400.0  # s: as far as the map goes back
CHANGES = ("NodeSeen", "NodeGone", "NodeChanged", "Cordoned", "Uncordoned")
NAME = 63  # an event keeps so much of a machine's name


@dataclass(frozen=True, slots=True)
class Past:
    """The machines as they were, by zone and rack; milli-GPU held there, and on machines that are gone since."""

    racks: tuple[RackRow, ...]
    held: int
    held_elsewhere: int

    @property
    def sums(self) -> tuple[RackSum, ...]:
        """The racks without their nodes, as `cluster.rack_sums` has them."""
        return tuple(part for rack in self.racks for part in cluster.sums_of(rack))

    @property
    def gpus(self) -> int:
        """All GPUs of the machines that are told."""
        return sum(rack.gpus for rack in self.racks)


def first(now: float) -> float:
    """The earliest moment the map goes back to, cluster clock: so far as is told, and as anything is known."""
    known = Event.objects.order_by("id").values_list("cluster_at", flat=True).first()
    return max(now - BACK, now if known is None else known)


def at(moment: float, visible: Collection[str] | None, pool: str = "", names: Collection[str] | None = None) -> Past:
    """The allocations at a moment of the cluster's clock; teams outside `visible` (None: all) stay nameless.

    names: of these machines only. Three queries, whatever there was.
    """
    changes = _changes(moment)
    machines = Node.objects.select_related("pool").order_by("name")
    held = Placement.objects.filter(Q(released_at__gt=moment) | Q(released_at=None), bound_at__lte=moment)
    if pool:
        machines, held = machines.filter(pool__name=pool), held.filter(pool=pool)
    if names is not None:
        machines, held = machines.filter(name__among=list(names)), held.filter(node__among=list(names))
    tenants = cluster.tenants(held, visible)
    by_rack: dict[tuple[str, str], list[NodeRow]] = defaultdict(list)
    for machine in machines:
        row = _as_it_was(cluster.row(machine, {}, tenants), changes.get(machine.name[:NAME], ()))
        if row is not None:
            by_rack[row.zone, row.rack].append(row)
    racks = tuple(RackRow(zone, rack, tuple(nodes)) for (zone, rack), nodes in sorted(by_rack.items()))
    told = {node.name for rack in racks for node in rack.nodes}
    everywhere = sum(tenant.milli for of in tenants.values() for tenant in of)
    here = sum(tenant.milli for (node, _), of in tenants.items() if node in told for tenant in of)
    return Past(racks, here, everywhere - here)


def _changes(moment: float) -> dict[str, list[tuple[str, dict[str, list[object]]]]]:
    """What happened to each machine since, the newest first."""
    since = Event.objects.filter(kind__in=CHANGES, cluster_at__gt=moment).order_by("-id")
    found: dict[str, list[tuple[str, dict[str, list[object]]]]] = defaultdict(list)
    for name, kind, data in since.values_list("name", "kind", "data"):
        found[name].append((kind, data))
    return found


def _as_it_was(row: NodeRow, changes: Iterable[tuple[str, dict[str, list[object]]]]) -> NodeRow | None:
    """A machine without its changes, newest first; None if it was not there."""
    is_there, ready, schedulable = True, row.ready, row.schedulable
    lost = [gpu.index for gpu in row.gpus if not gpu.healthy]
    for kind, data in changes:
        if kind in ("NodeSeen", "NodeGone"):
            is_there = kind == "NodeGone"
        elif kind in ("Cordoned", "Uncordoned"):
            schedulable = kind == "Cordoned"
        else:  # before and after, by column
            ready = bool(data.get("ready", [ready])[0])
            schedulable = bool(data.get("schedulable", [schedulable])[0])
            before = data.get("lost_gpus", [lost])[0]
            lost = before if isinstance(before, list) else lost
    gpus = tuple(
        replace(gpu, healthy=gpu.index not in lost, tenants=tuple(replace(t, is_leaving=False) for t in gpu.tenants))
        for gpu in row.gpus
    )
    return replace(row, ready=ready, schedulable=schedulable, gpus=gpus) if is_there else None
