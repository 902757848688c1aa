"""The dashboard: the clock, totals, history, decisions, what waits. milli-GPU and cluster-clock seconds."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any
from uuid import UUID

from django.db.models import (
    Avg,
    Case,
    Count,
    ExpressionWrapper,
    F,
    FloatField,
    IntegerField,
    Max,
    Q,
    QuerySet,
    Sum,
    When,
)
from django.db.models.functions import Cast, Floor

from controlplane.models import ClusterState, Event, Node, Notice, TeamSample, Usage, Workload
from controlplane.queries.tenancy import teams
from controlplane.simulator.worlds import catalogue
from gpushare.gpu import WHOLE
from scheduler.model.decision import Reason
from scheduler.model.workload import WAITING, Phase

HOUR = 3600.0
DAY = 24 * HOUR
_NO_PLACE_YET = [reason.value for reason in (Reason.ADMISSION_GATED, Reason.BACKOFF_AFTER_FAILURE)]
# What the feed tells: decisions and ends, not each step of a pod.
DECIDED = (
    "Admitted", "Reserved", "Evicted", "Waiting", "Scaled", "Shrunk", "Placed", "Succeeded", "Failed", "Expired",
    "Stopped", "Suspended", "Held",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clock:
    """The cluster's clock and, when it is simulated, its pace. observed_at is the wall clock's."""

    now: float
    is_simulated: bool
    speed: float
    paused: bool
    preset: str
    observed_at: datetime | None

    @property
    def work(self) -> str:
        """What the simulated cluster runs, in a few words: the demo, a trace file, or a model after one."""
        return catalogue.told(catalogue.name_of(self.preset))


@dataclass(frozen=True, slots=True)
class Totals:
    """The cluster as a whole. computing is None before the first measurement."""

    capacity: int
    held: int
    computing: int | None
    waiting: int
    wait_median: float | None
    wait_longest: float | None


@dataclass(frozen=True, slots=True)
class Wasted:
    """milli-GPU seconds held and not computing in the last 24 h, and in the 24 h before those."""

    held: int
    idle: int
    idle_before: int


@dataclass(frozen=True, slots=True)
class Moment:
    """One point of the history: milli-GPU by team name."""

    at: float
    held: dict[str, float]
    computing: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Line:
    """One point of a line without teams: milli-GPU, and how many wait."""

    at: float
    held: float
    computing: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Decided:
    """One line of the decision feed."""

    pk: int
    at: float
    kind: str
    actor: str
    team: str
    workload: UUID | None
    name: str
    reason: str
    message: str
    data: dict[str, object]


def clock() -> Clock:
    """The cluster's clock as last observed; zero before anything was."""
    row = ClusterState.objects.order_by("id").first()
    if row is None:
        return Clock(0.0, False, 0.0, False, "", None)
    return Clock(row.now, row.is_simulated, row.speed, row.paused, row.preset, row.observed_at)


def totals(at: float, rows: Collection[teams.TeamRow]) -> Totals:
    """What the cluster has, holds and computes, and how long its queue is. Four queries."""
    nodes = Node.objects.filter(ready=True).values_list("gpu_count", "lost_gpus")
    waiting, median, longest = _waits(at)
    measured = [row.computing for row in rows if row.computing is not None]
    return Totals(
        capacity=sum((gpus - len(lost)) * WHOLE for gpus, lost in nodes),
        held=sum(row.held for row in rows),
        computing=sum(measured) if measured else None,
        waiting=waiting,
        wait_median=median,
        wait_longest=longest,
    )


def _waits(at: float) -> tuple[int, float | None, float | None]:
    """How many wait, and the median and longest wait. In SQL: a queue of thousands is not read row by row."""
    queued = Workload.objects.filter(phase__in=[p.value for p in WAITING]).order_by("queued_at")
    count = queued.count()
    if not count:
        return 0, None, None
    oldest = queued.values_list("queued_at", flat=True)
    middle = oldest[(count - 1) // 2 : count // 2 + 1]
    waits = [max(0.0, at - since) for since in (*middle, oldest[0])]
    return count, fmean(waits[:-1]), waits[-1]


def waiting_count() -> int:
    """How many workloads wait, in the whole cluster."""
    return Workload.objects.filter(phase__in=[p.value for p in WAITING]).count()


def wasted(at: float) -> Wasted:
    """Held but idle GPU time of the last day, from the usage rows (full hours). Two queries."""
    hour = int(at // HOUR * HOUR)
    first, before = hour + int(HOUR) - int(DAY), hour + int(HOUR) - 2 * int(DAY)
    held, computed = _used(first, hour + int(HOUR))
    held_before, computed_before = _used(before, first)
    return Wasted(held, max(0, held - computed), max(0, held_before - computed_before))


def history(at: float, seconds: float, points: int) -> tuple[Moment, ...]:
    """Means of equal steps of the last `seconds`, oldest first; steps without a sample are left out. Two queries."""
    step, first = seconds / points, at - seconds
    samples = _stepped(at, seconds, points).values_list("step", "team_id")
    found = samples.annotate(held=Avg("held"), computing=Avg("computing"), waiting=Avg("waiting"))
    names = teams.ids()
    held: dict[int, dict[str, float]] = defaultdict(dict)
    sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for index, team, mean_held, computing, waiting in found:
        held[index][names[team]] = mean_held
        sums[index] = (sums[index][0] + computing, sums[index][1] + waiting)
    return tuple(Moment(first + (index + 0.5) * step, held[index], *sums[index]) for index in sorted(held))


def line(at: float, seconds: float, points: int) -> tuple[Line, ...]:
    """The whole cluster's means of equal steps of the last `seconds`, oldest first. One query, whatever the teams."""
    step, first = seconds / points, at - seconds
    samples = _stepped(at, seconds, points).values_list("step")
    found = samples.annotate(h=Sum("held"), c=Sum("computing"), w=Sum("waiting"), n=Count("at", distinct=True))
    return tuple(Line(first + (index + 0.5) * step, h / n, c / n, w / n) for index, h, c, w, n in found)


def _stepped(at: float, seconds: float, points: int) -> QuerySet[Any, Any]:
    """The samples of the last `seconds` in order, each with the number of its step, 0 for the oldest."""
    since = ExpressionWrapper((F("at") - (at - seconds)) / (seconds / points), output_field=FloatField())
    number = Cast(Floor(since), output_field=IntegerField())
    return TeamSample.objects.filter(at__gt=at - seconds, at__lte=at).annotate(step=number).order_by("step")


def has_history(at: float, seconds: float) -> bool:
    """Whether anything was sampled in the last `seconds`."""
    return TeamSample.objects.filter(at__gt=at - seconds, at__lte=at).exists()


def decisions(names: Collection[str] | None, limit: int) -> tuple[Decided, ...]:
    """The newest decisions about workloads of these teams (None: all)."""
    found = Event.objects.filter(kind__in=DECIDED, workload__isnull=False).order_by("-id")
    if names is not None:
        found = found.filter(team__in=names)
    return tuple(
        Decided(e.pk, e.cluster_at, e.kind, e.actor, e.team, e.workload, e.name, e.reason, e.message, e.data)
        for e in found[:limit]
    )


def queue(names: Collection[str] | None, limit: int) -> tuple[list[Workload], int]:
    """Some of what waits in these teams (None: all), and how many there are. Two queries.

    First what waits for a place, then what waits for other work or is held; the highest priority first in both. The
    order of the next round is whatif.turns, which costs a round.
    """
    found = Workload.objects.filter(phase__in=[p.value for p in WAITING])
    if names is not None:
        found = found.filter(team__name__in=names)
    is_held_back = Q(phase=Phase.HELD.value) | Q(reason__in=_NO_PLACE_YET)
    is_later = Case(When(is_held_back, then=1), default=0)
    ordered = found.select_related("team", "priority_class").defer("spec").order_by(is_later, "-priority", "seq")
    return list(ordered[:limit]), found.count()


def newest_event() -> int:
    """The number of the newest event; another one means that something has changed."""
    return Event.objects.aggregate(last=Max("id"))["last"] or 0


def versions() -> dict[str, object]:
    """One cheap value for each part of the pages; another value means that the part has changed. Four queries."""
    state = ClusterState.objects.order_by("id").values_list("now", "paused", "speed").first()
    now, paused, speed = state if state is not None else (0.0, False, 0.0)
    event = Event.objects.aggregate(last=Max("id"))["last"]
    sample = TeamSample.objects.aggregate(last=Max("id"))["last"]
    notice = Notice.objects.aggregate(last=Max("id"))["last"]
    return {"clock": (now, paused, speed), "workloads": event, "usage": sample, "notices": notice}


def _used(first: int, end: int) -> tuple[int, int]:
    sums = Usage.objects.filter(hour__gte=max(0, first), hour__lt=end).aggregate(h=Sum("held"), c=Sum("computed"))
    return sums["h"] or 0, sums["c"] or 0
