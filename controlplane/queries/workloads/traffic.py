"""The requests of stored services, as far as they are known, for a what-if.

The simulated cluster's own services have the traffic that they had there. Of others Weft knows the rates that it has
stored, a row a minute; what a replica does with a request is then what the autoscaler has learned of this service.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from autoscaler.law import State
from controlplane.cluster import work as works
from controlplane.jobspec.objective import within
from controlplane.models import ClusterState, ServiceWindow, Workload
from controlplane.queries.scheduling import rooms
from controlplane.queries.scheduling.scaling import WINDOW_SECONDS, remembered
from controlplane.simulator.replay.serving import Measured, Service
from controlplane.simulator.worlds.profiles import PROFILES

BEFORE_SECONDS = 3600.0  # of rates before the first round


def known(uids: Iterable[str], start: float, end: float) -> dict[str, Service]:
    """The services of which requests are known between these times (cluster clock); their replicas are as recorded."""
    columns = ("pk", "spec", "first_started_at")
    rows = list(Workload.objects.filter(pk__among=list(uids)).values_list(*columns))
    world = ClusterState.objects.exclude(preset="").filter(is_simulated=True).first()
    found: dict[str, Service | None] = {}
    if world is not None:
        for uid, spec, since in rows:
            share, limits = spec["normalised"].get("gpu_share") or {}, rooms.raised(spec["normalised"])
            work = works.read_work(str(uid), spec, PROFILES, world.seed)
            found[str(uid)] = Service.of(work, since, guarantee=share.get("guarantee", 0), limits=limits)
    else:
        uids_known = [uid for uid, _, _ in rows]
        rates, states = _rates(uids_known, start - BEFORE_SECONDS, end), remembered(uids_known)
        found = {
            str(uid): _measured(str(uid), spec, since, rates.get(uid, []), states[str(uid)])
            for uid, spec, since in rows
            if str(uid) in states
        }
    return {uid: service for uid, service in found.items() if service is not None}


def _rates(uids: list[UUID], since: float, until: float) -> dict[UUID, list[tuple[float, float]]]:
    """(middle of a minute, requests a second) of each service."""
    rows = ServiceWindow.objects.filter(workload__among=uids, start__gte=since, start__lt=until).order_by("start")
    found: dict[UUID, list[tuple[float, float]]] = {}
    for uid, start, rate in rows.values_list("workload", "start", "requests_per_second"):
        if rate is not None:
            found.setdefault(uid, []).append((start + WINDOW_SECONDS / 2, rate))
    return found


def _measured(
    uid: str, spec: Mapping[str, Any], since: float | None, rates: list[tuple[float, float]], state: State
) -> Service | None:
    learned, tried, limits = state.learned, state.tried, rooms.raised(spec["normalised"])
    objective = within(spec["normalised"].get("objective"))
    if learned.mean is None or not rates:
        return None
    course = Measured(uid, tuple(at for at, _ in rates), tuple(rate for _, rate in rates))
    service = Service(course, learned.mean, learned.slots, objective=objective, since=since)
    if limits is None or tried is None:
        return service
    return replace(service, measured_at=tried.limit, effect=tried.effect, limits=limits)
