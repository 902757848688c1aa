"""The list of machines, what happened to one, and what draining it would do."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from controlplane.lifecycle.draining import Fate, Resident, fate
from controlplane.models import Event, Node, Placement, PlacementState, SlowNode, Workload
from controlplane.queries.cells import views
from controlplane.queries.scheduling import cluster
from controlplane.queries.scheduling.cluster import NodeRow

KINDS = ("NodeSeen", "NodeGone", "NodeChanged", "Cordoned", "Uncordoned", "Drained", "NodeNamedSlow")
MOST = 20  # namings of a slow node that are told
HELD = (PlacementState.BOUND, PlacementState.LEAVING)


class State(StrEnum):
    """How a machine stands, the worst first."""

    NOT_READY = "not ready"
    CORDONED = "cordoned"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list: the machine, and how many workers lie on it."""

    node: NodeRow
    pods: int
    cell: str = ""  # where there are cells

    @property
    def state(self) -> State:
        """One word for it."""
        if not self.node.ready:
            return State.NOT_READY
        return State.READY if self.node.schedulable else State.CORDONED

    @property
    def unhealthy(self) -> int:
        """GPUs that are lost."""
        return sum(not gpu.healthy for gpu in self.node.gpus)


@dataclass(frozen=True, slots=True)
class Totals:
    """All machines that match, by state; GPUs whole."""

    nodes: int
    ready: int
    cordoned: int
    not_ready: int
    unhealthy_gpus: int


@dataclass(frozen=True, slots=True)
class Leaver:
    """A workload on a node and what a drain does to it. name and uid are empty where the viewer may not see it."""

    uid: UUID | None
    team: str
    colour: int
    name: str
    kind: str
    fate: Fate
    workers: int  # on this node
    unsaved: float | None  # seconds of the cluster's clock since its checkpoint; None: it has none, or does not run


@dataclass(frozen=True, slots=True)
class Named:
    """A training that was slowed by a worker on a node. name and uid are empty where the viewer may not see it.

    at: when that was named, the cluster's clock; part: of a step that would go without it, 0..1.
    """

    uid: UUID | None
    team: str
    colour: int
    name: str
    attempt: int
    rank: int
    at: float
    part: float


def filtered(pool: str = "", rack: str = "", state: str = "", text: str = "") -> QuerySet[Node]:
    """The machines that match, by pool and name. state is ready, cordoned, not-ready or unhealthy-gpu."""
    found = Node.objects.select_related("pool").order_by("pool__name", "name")
    if pool:
        found = found.filter(pool__name=pool)
    if rack:
        found = found.filter(rack=rack)
    if text:
        found = found.filter(name__icontains=text)
    match state:
        case "ready":
            found = found.filter(ready=True, schedulable=True)
        case "cordoned":
            found = found.filter(ready=True, schedulable=False)
        case "not-ready":
            found = found.filter(ready=False)
        case "unhealthy-gpu":
            found = found.exclude(lost_gpus=[])
    return found


def totals(found: QuerySet[Node]) -> Totals:
    """How many there are of each state. Two queries."""
    all_, ready, cordoned, lost_nodes = (
        found.order_by()
        .aggregate(
            all_=Count("pk"),
            usable=Count("pk", filter=Q(ready=True, schedulable=True)),
            away=Count("pk", filter=Q(ready=True, schedulable=False)),
            gone=Count("pk", filter=Q(ready=False)),
        )
        .values()
    )
    lost = found.exclude(lost_gpus=[]).order_by().values_list("lost_gpus", flat=True)
    return Totals(all_, ready, cordoned, lost_nodes, sum(map(len, lost)))


def page(found: QuerySet[Node], offset: int, limit: int, visible: Collection[str] | None) -> list[Listed]:
    """Some of these machines, with what lies on them. Six queries."""
    names = list(found.values_list("name", flat=True)[offset : offset + limit])
    rows = {row.name: row for row in cluster.hosts(names, visible)}
    live = Placement.objects.filter(node__among=names, state__in=HELD).order_by()
    pods = dict(live.values_list("node").annotate(n=Count("pk")))
    cells = views.known()
    listed = [(rows[name], pods.get(name, 0)) for name in names if name in rows]
    return [Listed(row, workers, views.of_node(row, cells).get("cell", "")) for row, workers in listed]


def racks(pool: str = "") -> list[str]:
    """The names of all racks, or those of a pool."""
    found = Node.objects.exclude(rack="").order_by("rack")
    return list((found.filter(pool__name=pool) if pool else found).values_list("rack", flat=True).distinct())


def exists(name: str) -> bool:
    """Whether there is a machine of this name."""
    return Node.objects.filter(name=name).exists()


def events(name: str, limit: int) -> list[Event]:
    """What happened to a machine, the newest first."""
    return list(Event.objects.filter(name=name[:63], kind__in=KINDS, workload=None).order_by("-id")[:limit])


def slow(name: str, visible: Collection[str] | None) -> tuple[Named, ...]:
    """The trainings in which a worker there was named as slow, the newest first. One query."""
    found = SlowNode.objects.filter(node=name).select_related("workload__team").order_by("-at", "-id")[:MOST]
    return tuple(_named(one, visible) for one in found)


def _named(one: SlowNode, visible: Collection[str] | None) -> Named:
    team = one.workload.team
    may_see = visible is None or team.name in visible
    uid, name = (one.workload_id, one.workload.name) if may_see else (None, "")
    return Named(uid, team.name, team.colour, name, one.attempt, one.rank, one.at, one.part)


def leavers(name: str, at: float, visible: Collection[str] | None) -> tuple[Leaver, ...]:
    """The workloads with workers on a node, and what draining it would do to each. Two queries."""
    there = Placement.objects.filter(node=name).exclude(state=PlacementState.RELEASED)
    found = list(
        Workload.objects.filter(pk__in=there.values("workload")).select_related("team").defer("spec").order_by("seq")
    )
    seats = Placement.objects.filter(workload__among=[w.pk for w in found]).exclude(state=PlacementState.RELEASED)
    here: Counter[UUID] = Counter()
    staying_here: Counter[UUID] = Counter()
    elsewhere: Counter[UUID] = Counter()
    with_role_members: set[UUID] = set()
    role_members = {w.pk: sum(count for _, count, _ in w.roles) for w in found}
    for uid, node, rank, state in seats.values_list("workload_id", "node", "rank", "state"):
        if node == name:
            here[uid] += 1
        if state == PlacementState.LEAVING:
            continue
        if node == name:
            staying_here[uid] += 1
            with_role_members |= {uid} if rank < role_members[uid] else set()
        elif rank >= role_members[uid]:
            elsewhere[uid] += 1
    rows = []
    for w in found:
        counts = (staying_here[w.pk], elsewhere[w.pk], w.pk in with_role_members, bool(w.intent))
        rows.append(_leaver(w, here[w.pk], counts, at, visible))
    return tuple(rows)


def _leaver(
    w: Any, here: int, counts: tuple[int, int, bool, bool], at: float, visible: Collection[str] | None
) -> Leaver:
    what = fate(Resident(w.kind, w.phase, w.preemptible, w.workers_min, *counts))
    saved = w.checkpointed_at or w.started_at
    may_see = visible is None or w.team.name in visible
    return Leaver(
        uid=w.pk if may_see else None,
        team=w.team.name,
        colour=w.team.colour,
        name=w.name if may_see else "",
        kind=w.kind,
        fate=what,
        workers=here,
        unsaved=max(0.0, at - saved) if saved is not None and w.checkpoint_interval else None,
    )
