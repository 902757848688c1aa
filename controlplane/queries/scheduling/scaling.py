"""What is measured of services, as the autoscaler reads it."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Max

from autoscaler.metrics import Metrics, Objective, Sample, ServiceMetrics
from controlplane.cluster.port import ServiceUse
from controlplane.models import Event, Placement, ServiceWindow, Workload, bulk
from scheduler.model.workload import ACTIVE, Kind

WINDOW_SECONDS = 60.0  # of a ServiceWindow row


def serving() -> dict[str, Any]:
    """The services that hold capacity: their ids, with the objective of each job file (None: without)."""
    rows = bulk.select(Workload, ("uid", "spec"), {"phase__in": ACTIVE, "kind": Kind.INFERENCE}, order=("seq",))
    return {str(uid): spec["normalised"]["objective"] for uid, spec in rows}


def metrics(services: Mapping[str, Any], uses: Iterable[ServiceUse], at: float, learn_seconds: float) -> Metrics:
    """The stored windows of `learn_seconds`, and after them what was measured just now."""
    uids = [UUID(uid) for uid in services]
    samples: dict[str, list[Sample]] = {uid: [] for uid in services}
    windows = ServiceWindow.objects.filter(workload__among=uids, start__gte=at - learn_seconds).order_by("start")
    columns = ("workload", "start", "replicas", "requests_per_second", "p95_seconds", "requests", "over")
    for uid, start, *values in windows.values_list(*columns):
        samples[str(uid)].append(Sample(start + WINDOW_SECONDS, WINDOW_SECONDS, *values))
    running = _running(uids)
    for use in uses:
        before = samples.get(use.workload)
        if before is not None and (not before or use.at > before[-1].at):
            before.append(_sample(use, running.get(use.workload, 0)))
    scaled = dict(
        Event.objects.filter(workload__among=uids, kind="Scaled")
        .order_by()
        .values_list("workload")
        .annotate(Max("cluster_at"))
    )
    return Metrics(
        {
            uid: ServiceMetrics(uid, _objective(promise), tuple(samples[uid]), scaled.get(UUID(uid)))
            for uid, promise in services.items()
        }
    )


def _running(uids: list[UUID]) -> dict[str, int]:
    counts: dict[str, int] = {}
    live = Placement.objects.filter(workload__among=uids, is_settled=False, pod_phase="Running").exclude(
        state="Released"
    )
    for uid in live.values_list("workload_id", flat=True):
        counts[str(uid)] = counts.get(str(uid), 0) + 1
    return counts


def _sample(use: ServiceUse, replicas: int) -> Sample:
    return Sample(
        at=use.at,
        seconds=use.window_seconds,
        replicas=replicas,
        requests_per_second=use.requests_per_second,
        p95_seconds=use.p95_seconds,
        requests=use.requests,
        over=use.over_objective,
        queue=use.queue,
    )


def _objective(promise: Mapping[str, float] | None) -> Objective | None:
    return Objective(**promise) if promise else None
