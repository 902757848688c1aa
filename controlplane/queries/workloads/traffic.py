"""The requests of stored services, as far as they are known, for a what-if.

The simulated cluster's own services have the traffic that they had there. Of others Weft knows the rates that it has
stored, a row a minute; what a replica does with a request is then what the autoscaler learns from these rows.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from autoscaler.metrics import Sample
from autoscaler.queueing import learn
from controlplane.cluster import work as works
from controlplane.models import ClusterState, ServiceWindow, Workload
from controlplane.queries.scheduling.scaling import WINDOW_SECONDS
from controlplane.simulator.replay.serving import Measured, Service
from controlplane.simulator.worlds.profiles import PROFILES

LEARN_SECONDS = 3600.0  # of rows before the first round: they say what a replica can do


def known(uids: Iterable[str], start: float, end: float) -> dict[str, Service]:
    """The services of which requests are known between these times (cluster clock); their replicas are as recorded."""
    columns = ("pk", "spec", "first_started_at")
    rows = list(Workload.objects.filter(pk__among=list(uids)).values_list(*columns))
    world = ClusterState.objects.exclude(preset="").filter(is_simulated=True).first()
    found: dict[str, Service | None] = {}
    if world is not None:
        for uid, spec, since in rows:
            found[str(uid)] = Service.of(works.read_work(str(uid), spec, PROFILES, world.seed), since)
    else:
        windows = _windows([uid for uid, _, _ in rows], start - LEARN_SECONDS, end)
        found = {str(uid): _measured(str(uid), spec, since, windows.get(uid, ())) for uid, spec, since in rows}
    return {uid: service for uid, service in found.items() if service is not None}


def _windows(uids: list[UUID], since: float, until: float) -> dict[UUID, list[Sample]]:
    rows = ServiceWindow.objects.filter(workload__among=uids, start__gte=since, start__lt=until).order_by("start")
    columns = ("workload", "start", "replicas", "requests_per_second", "p95_seconds")
    samples: dict[UUID, list[Sample]] = {}
    for uid, start, *values in rows.values_list(*columns):
        samples.setdefault(uid, []).append(Sample(start + WINDOW_SECONDS, WINDOW_SECONDS, *values))
    return samples


def _measured(uid: str, spec: Mapping[str, Any], since: float | None, samples: Iterable[Sample]) -> Service | None:
    samples = list(samples)
    rates = [(s.at - s.seconds / 2, s.requests_per_second) for s in samples if s.requests_per_second is not None]
    objective = (spec["normalised"].get("objective") or {}).get("p95_seconds")
    replica = learn(samples, float("inf") if objective is None else objective)
    if replica is None or not rates:
        return None
    course = Measured(uid, tuple(at for at, _ in rates), tuple(rate for _, rate in rates))
    return Service(course, replica.seconds, replica.at_once, objective=objective, since=since)
