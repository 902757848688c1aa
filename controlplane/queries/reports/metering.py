"""Counts for /metrics: a few grouped reads, bounded by teams, phases and pools, never by how much ran before."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, F, Min, Sum

from controlplane.models import Action, ClusterState, Node, Placement, PlacementState, Workload
from controlplane.queries.reports import sla
from scheduler.model.workload import ENDED, Phase

_ENDED = tuple(phase.value for phase in ENDED)
_HELD = (PlacementState.BOUND.value, PlacementState.LEAVING.value)


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits; oldest_seconds by the cluster's clock."""

    length: int
    oldest_seconds: float
    undecided_seconds: float
    actions: int


def workloads() -> Iterable[tuple[str, str, int]]:
    """(team, phase, how many) of what has not ended."""
    live = Workload.objects.exclude(phase__in=_ENDED).order_by()
    return live.values_list("team__name", "phase").annotate(count=Count("pk"))


def queue() -> Queue:
    """How long the queue is."""
    waiting = Workload.objects.filter(phase=Phase.QUEUED.value).aggregate(count=Count("pk"), first=Min("queued_at"))
    now = _now()
    oldest = 0.0 if waiting["first"] is None else max(0.0, now - waiting["first"])
    new = Workload.objects.filter(phase=Phase.QUEUED.value, reason="", reason_at__lt=F("queued_at"))
    since = new.aggregate(first=Min("queued_at"))["first"]
    undecided = 0.0 if since is None else max(0.0, now - since)
    return Queue(waiting["count"], oldest, undecided, Action.objects.filter(done_at__isnull=True).count())


def gpus() -> Iterable[tuple[str, int]]:
    """(pool, GPUs) of nodes that take work."""
    usable = Node.objects.filter(ready=True, schedulable=True).order_by()
    return usable.values_list("pool__name").annotate(count=Sum("gpu_count"))


def held() -> Iterable[tuple[str, str, int]]:
    """(pool, team, milli-GPU) of workers on machines."""
    placed = Placement.objects.filter(state__in=_HELD, is_settled=False, bound_at__isnull=False).order_by()
    return placed.values_list("pool", "workload__team__name").annotate(total=Sum("milli"))


def services() -> tuple[sla.ServiceRow, ...]:
    """How each live service with an objective stands. Five queries."""
    return sla.services(_now())


def _now() -> float:
    return ClusterState.objects.order_by("id").values_list("now", flat=True).first() or 0.0
