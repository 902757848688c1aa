"""Notebooks: whether they are used, how long until they are parked, and which workloads share their GPU."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings

from controlplane.cluster.port import IN_HOST_MEMORY, PodPhase
from controlplane.domain import notebookhosts
from controlplane.domain.ondemand import is_on_demand
from controlplane.lifecycle import notebooks as rule
from controlplane.models import Placement, PlacementState, Workload
from controlplane.queries.accounts import access
from controlplane.queries.workloads import workloads
from controlplane.security import notebookkeys
from controlplane.security.notebookkeys import TICKET, Visit
from controlplane.security.sessions import digest_of
from scheduler.model.workload import ENDED, Kind, Phase

MAX = 200  # notebooks on one page
HELD = (PlacementState.BOUND, PlacementState.LEAVING)


class Use(StrEnum):
    """How a notebook is used now."""

    ACTIVE = "active"  # in use, or not measured: what is not known counts as use
    IDLE = "idle"
    PARKED = "parked"
    OTHER = ""  # the phase says it: it waits, starts or leaves


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another worker on the same GPU. uid and name are empty where the viewer may not see it."""

    uid: UUID | None
    team: str
    colour: int
    name: str
    milli: int


@dataclass(frozen=True, slots=True)
class Row:
    """One notebook. idle_since and park_after are seconds of the cluster's clock; None: in use, or never parked."""

    workload: Any
    use: Use
    idle_since: float | None
    park_after: float | None
    address: str | None
    node: str
    gpus: tuple[int, ...]  # on demand: the one that its memory is on; none where it is in host memory, or not known
    neighbours: tuple[Neighbour, ...]
    may_act: bool
    on_demand: bool = False
    in_host_memory: bool = False  # of one on demand: its memory is on no GPU

    def parks_in(self, at: float) -> float | None:
        """Seconds until it is parked if it stays idle; None: it is in use, or is never parked."""
        if self.idle_since is None or not self.park_after:
            return None
        return max(0.0, self.idle_since + self.park_after - at)

    @property
    def can_be_extended(self) -> bool:
        """Whether there is a countdown to begin anew."""
        allowed = self.may_act and self.workload.team.notebook_extend
        return allowed and self.idle_since is not None and bool(self.park_after)


def park_after(workload: Any) -> float | None:
    """Seconds without use after which it is parked, by its job file and its team; None: never."""
    if workload.kind != Kind.NOTEBOOK.value:
        return None
    return rule.park_after(workload.spec, workload.team.notebook_park_minutes)


def notebooks(user: access.Person, team: str = "", *, is_mine: bool = False) -> tuple[Row, ...]:
    """The notebooks that have not ended, those that hold a GPU first. The number of queries is constant."""
    found = workloads.visible(user).filter(kind=Kind.NOTEBOOK.value).exclude(phase__in=[p.value for p in ENDED])
    if team:
        found = found.filter(team__name=team)
    if is_mine:
        found = found.filter(created_by=user.pk)
    listed = rows(user, list(found.order_by("team__name", "name")[:MAX]))
    return tuple(sorted(listed, key=lambda row: (not row.node, row.workload.team.name, row.workload.name)))


def by_name(user: access.Person, team: str, name: str) -> Any:
    """The newest notebook of that name, as the viewer may see it; None: there is none."""
    found = workloads.visible(user).filter(kind=Kind.NOTEBOOK.value, team__name=team, name=name)
    return found.order_by("-seq").first()


def has_entrance(workload: Any) -> bool:
    """Whether a member of its team gets to it through the proxy now."""
    return bool(settings.NOTEBOOK_URL) and workload.phase == Phase.RUNNING.value


def page(workload: Any) -> str | None:
    """Weft's page that leads to it through the proxy, and brings it back if it is parked; None: there is no proxy."""
    has_page = bool(settings.NOTEBOOK_URL and settings.PUBLIC_URL) and Phase(workload.phase) not in ENDED
    return f"{settings.PUBLIC_URL}/notebooks/{workload.pk}/enter" if has_page else None


def entrance(workload: Any, user: Any, session_key: str, path: str) -> str | None:
    """Where its visitor goes on to through the proxy, by this session; None: it does not run, or there is no proxy."""
    if not has_entrance(workload) or not session_key:
        return None
    visit = Visit(workload.pk, user.pk, digest_of(session_key))
    there = notebookhosts.path(path)
    end = "&" if "?" in there else "?"
    origin = notebookhosts.origin(settings.NOTEBOOK_URL, workload.pk)
    return f"{origin}{there}{end}{TICKET}={quote(notebookkeys.ticket(visit))}"


def rows(user: access.Person, found: Sequence[Workload]) -> list[Row]:
    """How these stand, in their order. The number of queries is constant."""
    roles = access.roles(user)
    seen = None if access.is_platform_admin(user) else set(roles)
    seats = _seats(found)
    beside = _beside({seat[0] for seat in seats.values()})
    return [
        _row(w, seats.get(w.pk), beside, seen, access.allows(roles.get(w.team.name), access.Verb.ACT)) for w in found
    ]


Seat = tuple[str, tuple[int, ...], int | None]  # node, the GPUs that it has there, and where it is if it is on demand


def _seats(found: Sequence[Workload]) -> dict[UUID, Seat]:
    live = Placement.objects.filter(workload__among=[w.pk for w in found], state__in=HELD).order_by("id")
    columns = ("workload_id", "node", "gpus", "on_gpu", "workload__offloads")
    return {uid: (node, _gpus(*has), has[1]) for uid, node, *has in live.values_list(*columns)}


def _gpus(gpus: Sequence[int], on_gpu: int | None, on_demand: bool) -> tuple[int, ...]:
    """The GPUs that it has: on demand the one that it is on, none if that is not known."""
    if not on_demand:
        return tuple(gpus)
    return () if on_gpu in (None, IN_HOST_MEMORY) else (on_gpu,)


def on_gpu(workload: Any) -> int | None:
    """Where the memory of one on demand is, as its placement has it. One query."""
    live = Placement.objects.filter(workload=workload.pk, state__in=HELD, pod_phase=PodPhase.RUNNING.value)
    found: int | None = live.order_by("-id").values_list("on_gpu", flat=True).first()
    return found


def _beside(nodes: Collection[str]) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The workloads on each GPU of these nodes."""
    live = Placement.objects.filter(node__among=sorted(nodes), state__in=HELD).order_by("id")
    columns = ("workload_id", "workload__team__name", "workload__team__colour", "workload__name", "milli")
    has = ("gpus", "on_gpu", "workload__offloads", "workload__kind")
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for node, gpus, on, offloads, kind, *tenant in live.values_list("node", *has, *columns):
        for index in _gpus(gpus, on, is_on_demand(kind, offloads)):
            found[node, index].append((*tenant[:4], tenant[4] // len(gpus)))
    return found


def _row(
    w: Workload,
    seat: Seat | None,
    beside: dict[tuple[str, int], list[tuple[Any, ...]]],
    seen: Collection[str] | None,
    may_act: bool,
) -> Row:
    node, gpus, on = seat or ("", (), None)
    near = {one[0]: one for index in gpus for one in beside.get((node, index), ()) if one[0] != w.pk}
    idle_since = workloads.idle_since(w)
    return Row(
        workload=w,
        use=_use(w.phase, idle_since),
        idle_since=idle_since,
        park_after=park_after(w),
        address=workloads.address(w),
        node=node,
        gpus=gpus,
        neighbours=tuple(_neighbour(one, seen) for one in near.values()),
        may_act=may_act,
        on_demand=w.offloads,
        in_host_memory=on == IN_HOST_MEMORY,
    )


def _neighbour(tenant: tuple[Any, ...], seen: Collection[str] | None) -> Neighbour:
    uid, team, colour, name, milli = tenant
    may_see = seen is None or team in seen
    return Neighbour(uid if may_see else None, team, colour, name if may_see else "", milli)


def _use(phase: str, idle_since: float | None) -> Use:
    if phase == Phase.RUNNING:
        return Use.ACTIVE if idle_since is None else Use.IDLE
    return Use.PARKED if phase == Phase.SUSPENDED else Use.OTHER
