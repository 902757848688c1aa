"""How services stand against their objectives.

A service's objective says: `availability` of its requests are answered within `p95_latency`, or have their first token
within `p95_first_token`, over `window`. What may go wrong is its error budget; `over` counts requests that were slower
or failed. None = not known, which is never 0. Requests of before the objective was changed were measured against
another one, so they do not count.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery, Sum

from autoscaler import sla
from autoscaler.latency import ANSWER, FIRST_TOKEN
from autoscaler.sla import Standing
from controlplane.models import Event, ServiceWindow, Workload, bulk
from scheduler.model.workload import ENDED, Kind, Phase

SPANS = 20  # different windows of objectives that one statement sums over
RECENT = (*sla.SPANS, sla.SILENT_SECONDS)  # s: what is summed of the newest windows of each service
UP = frozenset(phase.value for phase in (Phase.RUNNING, Phase.SCALING, Phase.DEGRADED))  # replicas are there
_ENDED = tuple(phase.value for phase in ENDED)
_LAST = ("workload", "p95_seconds", "requests_per_second", "replicas")

UNMEASURED = (
    "No first token was measured: no request came, or nobody tells when answers begin. That tell our activator, for a "
    "service with a gateway, and vLLM. Istio's durations are of whole answers."
)

Recent = Mapping[float, tuple[int, int]]  # (requests, over) of the last seconds, by how many
_NOTHING: Recent = dict.fromkeys(RECENT, (0, 0))


@dataclass(frozen=True, slots=True)
class Judged:
    """A service's phase, its objective, and since when it has that one; None: from the first.

    workers: replicas wanted. may_sleep: whether it may have none while no request comes.
    """

    phase: str
    objective: Mapping[str, Any]
    since: float | None
    workers: int = 1
    may_sleep: bool = False

    def seconds(self, at: float) -> float:
        """Over how long its requests count, in seconds."""
        window = float(self.objective["window_seconds"])
        return window if self.since is None else min(window, max(0.0, at - self.since))


@dataclass(frozen=True, slots=True)
class Measured:
    """The requests of one service against its objective: over the objective's window, and lately."""

    phase: str
    target: float | None  # part of the requests, 0..1
    requests: int
    over: int
    recent: Recent
    has_slept: bool = field(default=False, kw_only=True)  # now or lately: that nothing was measured is no silence

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
        return self.burn_rates[sla.RECENT_SECONDS]

    @property
    def burn_rates(self) -> Mapping[float, float | None]:
        """The same by span in seconds, for all of sla.SPANS."""
        if self.target is None:
            return dict.fromkeys(sla.SPANS)
        return {span: sla.burn_rate(*self.recent[span], self.target) for span in sla.SPANS}

    @property
    def standing(self) -> Standing:
        """One word for it."""
        is_silent = self.phase in UP and not self.recent[sla.SILENT_SECONDS][0]
        return sla.standing(self.budget_left, self.burn_rates, is_silent=is_silent, has_slept=self.has_slept)


@dataclass(frozen=True, slots=True)
class ServiceRow(Measured):
    """The same of a service as pages list it; latencies and the window in seconds."""

    uid: UUID
    name: str
    team: str
    colour: int
    p95_target: float | None
    window: float | None
    p95: float | None
    requests_per_second: float | None
    replicas: int
    wanted: int
    p95_of: str = ANSWER  # what p95 and p95_target are measured on

    @property
    def unknown_why(self) -> str:
        """Why it is not known how it stands, where that is more than that nothing was measured; else empty."""
        if self.p95_of != FIRST_TOKEN or self.standing is not Standing.UNKNOWN:
            return ""
        return UNMEASURED


def services(at: float, names: Collection[str] | None = None) -> tuple[ServiceRow, ...]:
    """The services of these teams (None: all) that have not ended and have an objective, worst first. Four queries."""
    found = Workload.objects.filter(kind=Kind.INFERENCE.value).exclude(phase__in=_ENDED)
    if names is not None:
        found = found.filter(team__name__in=names)
    columns = ("pk", "name", "team__name", "team__colour", "phase", "spec", "workers", "objective_since")
    live = [row for row in found.order_by("seq").values_list(*columns) if objective(row[5])]
    rows = _rows(at, live)
    return tuple(sorted(rows, key=lambda row: (row.budget_left is None, row.budget_left or 0.0, row.team, row.name)))


def one(at: float, workload: Workload) -> ServiceRow | None:
    """How one service stands; None when it has no objective."""
    if workload.kind != Kind.INFERENCE.value or not objective(workload.spec):
        return None
    team, spec = workload.team, workload.spec
    values = (workload.pk, workload.name, team.name, team.colour, workload.phase, spec, workload.workers)
    return _rows(at, [(*values, workload.objective_since)])[0]


def standings(at: float, uids: Collection[UUID]) -> dict[UUID, Standing]:
    """How those of these workloads stand that are services, have not ended and have an objective. Three queries."""
    live = Workload.objects.filter(uid__among=uids, kind=Kind.INFERENCE.value).exclude(phase__in=_ENDED)
    columns = live.values_list("pk", "phase", "spec", "objective_since", "workers")
    judged = {uid: _judged(*row) for uid, *row in columns}
    measured = _measured(at, {uid: one for uid, one in judged.items() if one.objective})
    return {uid: one.standing for uid, one in measured.items()}


def latencies(at: float, uid: UUID, seconds: float = 6 * 3600.0) -> tuple[tuple[float, float | None], ...]:
    """(cluster clock, p95 seconds) of a service's windows of the last hours, oldest first."""
    mine = ServiceWindow.objects.filter(workload=uid, start__gte=at - seconds).order_by("start")
    return tuple(mine.values_list("start", "p95_seconds"))


def objective(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The objective of a stored job file, in numbers; empty: it has none."""
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


def _measured(at: float, services: Mapping[UUID, Judged]) -> dict[UUID, Measured]:
    """What was measured of these. Two queries, or none."""
    if not services:
        return {}
    whole = _sums(at, {uid: one.seconds(at) for uid, one in services.items()})
    recent, slept = _recent(at, services), _slept(at, services)
    return {
        uid: Measured(
            one.phase, one.objective.get("availability"), *whole.get(uid, (0, 0)), recent.get(uid, _NOTHING),
            has_slept=uid in slept,
        )
        for uid, one in services.items()
    }  # fmt: skip


def _judged(phase: str, spec: Mapping[str, Any], since: float | None, workers: int) -> Judged:
    return Judged(phase, objective(spec), since, workers, may_sleep(spec))


def may_sleep(spec: Mapping[str, Any]) -> bool:
    """Whether a stored job file lets its service have no replica while no request comes."""
    return (spec.get("normalised") or {}).get("scale_to_zero_after_seconds") is not None


def _slept(at: float, services: Mapping[UUID, Judged]) -> set[UUID]:
    """Those of them that sleep, or have woken so lately that nothing need be measured yet. One query, or none."""
    able = [uid for uid, one in services.items() if one.may_sleep]
    if not able:
        return set()
    woken = Event.objects.filter(workload__among=able, kind="Scaled", cluster_at__gte=at - sla.SILENT_SECONDS)
    lately = {uid for uid, data in woken.values_list("workload", "data") if uid and data.get("before") == 0}
    return lately | {uid for uid in able if services[uid].workers == 0}


def _recent(at: float, services: Mapping[UUID, Judged]) -> dict[UUID, Recent]:
    """(requests, over) of each service by span of RECENT, in one query."""
    spans = {f"s{span:.0f}": Q(start__gte=at - span) for span in RECENT}
    sums = {f"{name}_{what}": Sum(what, filter=span) for name, span in spans.items() for what in ("requests", "over")}
    found = ServiceWindow.objects.filter(workload__among=list(services), start__gte=at - max(RECENT)).order_by()
    for uid, one in services.items():
        if one.since is not None and one.since > at - max(RECENT):
            found = found.exclude(workload=uid, start__lt=one.since)
    keyed: Iterable[tuple[Any, ...]] = found.values_list("workload").annotate(**sums)
    return {uid: dict(zip(RECENT, _pairs(values), strict=True)) for uid, *values in keyed}


def _pairs(values: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """a, b, c, d as (a, b), (c, d); None, the sum of nothing, is 0."""
    for first in range(0, len(values), 2):
        yield values[first] or 0, values[first + 1] or 0


def _rows(at: float, found: Sequence[tuple[Any, ...]]) -> list[ServiceRow]:
    """Services of their columns: uid, name, team, colour, phase, spec, workers, objective_since. Three queries."""
    measured = _measured(at, {row[0]: _judged(row[4], row[5], row[7], row[6]) for row in found})
    last = _last(measured)
    return [_row(row, measured[row[0]], last.get(row[0], {})) for row in found]


def _row(values: tuple[Any, ...], measured: Measured, last: Mapping[str, Any]) -> ServiceRow:
    uid, name, team, colour, phase, spec, workers, _ = values
    promised = objective(spec)
    return ServiceRow(
        phase=phase,
        target=measured.target,
        requests=measured.requests,
        over=measured.over,
        recent=measured.recent,
        uid=uid,
        name=name,
        team=team,
        colour=colour,
        p95_target=promised.get("p95_seconds"),
        window=promised.get("window_seconds"),
        p95=last.get("p95"),
        requests_per_second=last.get("rate"),
        replicas=last.get("replicas", 0) if workers else 0,  # what sleeps may not be measured any more
        wanted=workers,
        has_slept=measured.has_slept,
        p95_of=promised.get("of", ANSWER),
    )
