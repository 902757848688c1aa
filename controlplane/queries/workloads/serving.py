"""Services as their pages show them: replicas against load, decisions of the autoscaler, and its victims."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controlplane.domain.reclaimprice import Price, price_of
from controlplane.jobspec.quantities import iso
from controlplane.models import Event, Placement, ServiceWindow, Team, Workload
from controlplane.queries.reports import sla
from controlplane.queries.workloads.revisions import STAYING
from scheduler.model.workload import ENDED, Kind

LOOKED_AT = 500  # evictions among which the page looks for a service's
SIX_HOURS = 6 * 3600.0  # s of windows that a chart shows
MAX = 500  # services on one page


@dataclass(frozen=True, slots=True)
class Listed:
    """One service: how it stands against its objective (None: it has none), and between which bounds it scales."""

    uid: UUID
    name: str
    team: str
    colour: int
    phase: str
    wanted: int
    least: int
    most: int
    standing: sla.ServiceRow | None
    last: Event | None  # the newest decision about its replicas


@dataclass(frozen=True, slots=True)
class Window:
    """One minute of a service. rate is requests a second, p95 seconds; None = not known.

    asleep: replicas on standby; lent: GPUs of these that gangs use; lent_to: the same by the id of the gangs' team.
    None for a service without standby, and the last for minutes of before it was kept.
    """

    start: float
    replicas: int
    wanted: int
    rate: float | None
    p95: float | None
    requests: int | None
    over: int | None
    asleep: int | None = None
    lent: int | None = None
    lent_to: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Borrower:
    """A team whose gangs had lent GPUs; all that the viewer may not see are one, with no name."""

    name: str
    colour: int | None
    gpus: tuple[int | None, ...]  # in each of the minutes; None: not known


@dataclass(frozen=True, slots=True)
class Taken:
    """A workload that gave GPUs to a service. victim and name are empty where the viewer may not see it."""

    at: float
    kind: str
    reason: str
    victim: UUID | None
    team: str
    name: str
    cycle: int | None
    price: Price | None = None

    def shown(self) -> dict[str, Any]:
        """As REST has it."""
        return {
            "at": iso(self.at),
            "kind": self.kind,
            "reason": self.reason,
            "workload": None if self.victim is None else str(self.victim),
            "team": self.team,
            "name": self.name,
            "cycle": self.cycle,
            "reclaim_price": None if self.price is None else self.price.shown(),
        }


def services(at: float, names: Collection[str] | None) -> tuple[Listed, ...]:
    """The services of these teams (None: all) that have not ended, the worst first. Six queries."""
    stand = {row.uid: row for row in sla.services(at, names)}
    found = Workload.objects.filter(kind=Kind.INFERENCE.value).exclude(phase__in=[p.value for p in ENDED])
    if names is not None:
        found = found.filter(team__name__in=names)
    columns = ("pk", "name", "team__name", "team__colour", "phase", "workers", "workers_min", "workers_max")
    rows: list[tuple[Any, ...]] = list(found.order_by("team__name", "name").values_list(*columns)[:MAX])
    last = _last_scaled({row[0] for row in rows})
    listed = [Listed(*(*row, stand.get(row[0]), last.get(row[0]))) for row in rows]
    order = {uid: i for i, uid in enumerate(stand)}
    return tuple(sorted(listed, key=lambda one: (order.get(one.uid, len(order)), one.team, one.name)))


def windows(at: float, uid: UUID, seconds: float = SIX_HOURS) -> tuple[Window, ...]:
    """A service's minutes of the last hours, oldest first."""
    mine = ServiceWindow.objects.filter(workload=uid, start__gte=at - seconds).order_by("start")
    columns = (
        "start",
        "replicas",
        "wanted",
        "requests_per_second",
        "p95_seconds",
        "requests",
        "over",
        "asleep",
        "lent",
        "lent_to",
    )
    return tuple(Window(*row) for row in mine.values_list(*columns))


def borrowers(minutes: Sequence[Mapping[str, int] | None], visible: Collection[str] | None) -> tuple[Borrower, ...]:
    """Whose trainings had the lent GPUs in these minutes, by name; teams that are not visible (None: all are) together,
    last. One query, or none."""
    ids = {team for lent_to in minutes for team in lent_to or ()}
    if not ids:
        return ()
    rows = Team.objects.filter(pk__among=[int(one) for one in ids]).order_by("name").values_list("pk", "name", "colour")
    known = {str(pk): (name, colour) for pk, name, colour in rows if visible is None or name in visible}
    found = [Borrower(*known[team], _gpus(minutes, {team})) for team in known]
    others = ids - known.keys()
    return (*found, Borrower("", None, _gpus(minutes, others))) if others else tuple(found)


def _gpus(minutes: Sequence[Mapping[str, int] | None], teams: Collection[str]) -> tuple[int | None, ...]:
    return tuple(None if to is None else sum(n for team, n in to.items() if team in teams) for to in minutes)


def has_windows(at: float, uid: UUID, seconds: float = SIX_HOURS) -> bool:
    """Whether anything was measured of it in the last hours."""
    return ServiceWindow.objects.filter(workload=uid, start__gte=at - seconds).exists()


def where(uid: UUID) -> tuple[int, int]:
    """On how many GPUs and nodes the replicas that run, or start, are."""
    live = Placement.objects.filter(workload=uid, state__in=STAYING).values_list("node", "gpus")
    there = list(live)
    return len({(node, gpu) for node, gpus in there for gpu in gpus}), len({node for node, _ in there})


def scaled(uid: UUID, limit: int) -> list[Event]:
    """The newest decisions about a service's replicas."""
    return list(Event.objects.filter(workload=uid, kind="Scaled").order_by("-id")[:limit])


def taken(uid: UUID, limit: int, visible: Collection[str] | None) -> tuple[Taken, ...]:
    """What was preempted or shrunk for a service, the newest first, among the cluster's newest evictions."""
    newest = Event.objects.filter(kind__in=("Evicted", "Shrunk")).order_by("-id")[:LOOKED_AT]
    mine = [event for event in newest if _by(event.data) == str(uid)]
    return tuple(_taken(event, visible) for event in mine[:limit])


def _taken(event: Event, visible: Collection[str] | None) -> Taken:
    may_see = visible is None or event.team in visible
    return Taken(
        at=event.cluster_at,
        kind=event.kind,
        reason=event.reason,
        victim=event.workload if may_see else None,
        team=event.team,
        name=event.name if may_see else "",
        cycle=event.cycle,
        price=price_of(event.kind, event.reason, event.data),
    )


def _by(data: Mapping[str, Any]) -> str:
    return str(data.get("by", ""))


def _last_scaled(uids: Collection[UUID]) -> dict[UUID, Event]:
    found: dict[UUID, Event] = {}
    newest = Event.objects.filter(kind="Scaled", workload__among=list(uids)).order_by("-id")[:LOOKED_AT]
    for event in newest:
        if event.workload is not None:
            found.setdefault(event.workload, event)
    return found
