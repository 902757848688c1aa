"""How services stand against their objectives.

A service's objective says: `availability` of its requests are answered within `p95_latency`, over `window`. What may
go wrong is its error budget; `over` counts requests that were slower or failed. None = not known, which is never 0.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery, Sum

from autoscaler import sla
from autoscaler.sla import Standing
from controlplane.models import ServiceWindow, Workload, bulk
from scheduler.model.workload import ENDED, Kind

SPANS = 20  # different windows of objectives that one statement sums over
_LAST = ("workload", "p95_seconds", "requests_per_second", "replicas")


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """One service against its objective. attainment, target and budget_left are parts of 1; latencies seconds."""

    uid: UUID
    name: str
    team: str
    colour: int
    phase: str
    target: float | None
    p95_target: float | None
    window: float | None
    requests: int
    over: int
    recent_requests: int
    recent_over: int
    p95: float | None
    requests_per_second: float | None
    replicas: int
    wanted: int

    @property
    def attainment(self) -> float | None:
        """Part of the requests that met the objective; None without requests."""
        return sla.attainment(self.requests, self.over)

    @property
    def budget_left(self) -> float | None:
        """Part of the error budget that is left; below 0 when more went wrong than may."""
        return None if self.target is None else sla.budget_left(self.requests, self.over, self.target)

    @property
    def burn_rate(self) -> float | None:
        """How fast the last hour used the budget: 1 uses it up exactly by the end of the window."""
        return None if self.target is None else sla.burn_rate(self.recent_requests, self.recent_over, self.target)

    @property
    def standing(self) -> Standing:
        """One word for it."""
        return sla.standing(self.budget_left, self.burn_rate)


def services(at: float, names: Collection[str] | None = None) -> tuple[ServiceRow, ...]:
    """The services of these teams (None: all) that have not ended and have an objective, worst first. Four queries."""
    found = Workload.objects.filter(kind=Kind.INFERENCE.value).exclude(phase__in=[p.value for p in ENDED])
    if names is not None:
        found = found.filter(team__name__in=names)
    columns = ("pk", "name", "team__name", "team__colour", "phase", "spec", "workers")
    live = [row for row in found.order_by("seq").values_list(*columns) if _objective(row[5])]
    spans = {row[0]: float(_objective(row[5])["window_seconds"]) for row in live}
    whole = _sums(at, spans)
    recent = _sums(at, dict.fromkeys(spans, sla.RECENT_SECONDS))
    last = _last(spans)
    rows = [_row(row, whole.get(row[0], (0, 0)), recent.get(row[0], (0, 0)), last.get(row[0], {})) for row in live]
    return tuple(sorted(rows, key=lambda row: (row.budget_left is None, row.budget_left or 0.0, row.team, row.name)))


def one(at: float, workload: Workload) -> ServiceRow | None:
    """How one service stands; None when it has no objective."""
    if workload.kind != Kind.INFERENCE.value or not _objective(workload.spec):
        return None
    spans = {workload.pk: float(_objective(workload.spec)["window_seconds"])}
    team, recent = workload.team, _sums(at, {workload.pk: sla.RECENT_SECONDS})
    values = (workload.pk, workload.name, team.name, team.colour, workload.phase, workload.spec, workload.workers)
    sums = _sums(at, spans)
    return _row(
        values, sums.get(workload.pk, (0, 0)), recent.get(workload.pk, (0, 0)), _last(spans).get(workload.pk, {})
    )


def latencies(at: float, uid: UUID, seconds: float = 6 * 3600.0) -> tuple[tuple[float, float | None], ...]:
    """(cluster clock, p95 seconds) of a service's windows of the last hours, oldest first."""
    mine = ServiceWindow.objects.filter(workload=uid, start__gte=at - seconds).order_by("start")
    return tuple(mine.values_list("start", "p95_seconds"))


def _objective(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("normalised") or {}).get("objective") or {}


def _sums(at: float, spans: Mapping[UUID, float]) -> dict[UUID, tuple[int, int]]:
    """(requests, over) of each service over its own span; one query for every 20 different spans."""
    by_span: dict[float, list[UUID]] = {}
    for uid, span in spans.items():
        by_span.setdefault(span, []).append(uid)
    found: dict[UUID, tuple[int, int]] = {}
    for some in bulk.chunks(by_span.items(), SPANS):
        wanted = Q()
        for span, uids in some:
            wanted |= Q(workload__among=uids, start__gte=at - span)
        sums = ServiceWindow.objects.filter(wanted).order_by().values_list("workload")
        for uid, requests, over in sums.annotate(r=Sum("requests"), o=Sum("over")):
            found[uid] = requests or 0, over or 0
    return found


def _last(uids: Collection[UUID]) -> dict[UUID, dict[str, Any]]:
    """The newest window of each service."""
    windows = ServiceWindow.objects.filter(workload=OuterRef("pk")).order_by("-start")
    newest = Workload.objects.filter(pk__among=uids).values_list(Subquery(windows.values("pk")[:1]))
    rows = ServiceWindow.objects.filter(pk__in=newest).values_list(*_LAST)
    return {uid: dict(zip(("p95", "rate", "replicas"), values, strict=True)) for uid, *values in rows}


def _row(
    values: tuple[Any, ...], whole: tuple[int, int], recent: tuple[int, int], last: Mapping[str, Any]
) -> ServiceRow:
    uid, name, team, colour, phase, spec, workers = values
    objective = _objective(spec)
    return ServiceRow(
        uid=uid,
        name=name,
        team=team,
        colour=colour,
        phase=phase,
        target=objective.get("availability"),
        p95_target=objective.get("p95_seconds"),
        window=objective.get("window_seconds"),
        requests=whole[0],
        over=whole[1],
        recent_requests=recent[0],
        recent_over=recent[1],
        p95=last.get("p95"),
        requests_per_second=last.get("rate"),
        replicas=last.get("replicas", 0),
        wanted=workers,
    )
