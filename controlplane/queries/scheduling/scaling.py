"""What is measured of services, as the autoscaler reads it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.conf import settings

from autoscaler.law import State
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.native import Native
from autoscaler.observed import Scrape, Signal
from autoscaler.profile import Profile
from controlplane.domain import lawstate
from controlplane.jobspec.scaling import is_native
from controlplane.models import Placement, PlacementState, ServiceScaler, ServiceState, Workload, bulk
from controlplane.queries.scheduling import coldstart, rooms
from scheduler.model.workload import ACTIVE, ON_DEVICE, Kind

WINDOW_SECONDS = 60.0  # of a ServiceWindow row
NOTHING: Mapping[str, Signal] = MappingProxyType({})
MAX_START = 900.0  # s: a first replica that took longer waited for something else


@dataclass(frozen=True, slots=True)
class Promise:
    """What a service's job file says of scaling. objective: None: it has none.

    idle_after: s without a request until it may have no replica; None: it always has one, or a revision is being
    brought in, which is judged by the replicas that it has. may_sleep: whether it may ever have none. limits: the least
    and the most of its replicas' limit, milli-GPU; None: it is not raised.
    """

    objective: Mapping[str, Any] | None
    idle_after: float | None = None
    may_sleep: bool = False
    native: Native | None = None  # how Kubernetes' own autoscaler scales it; None: Weft does
    limits: tuple[int, int] | None = None
    profile: Profile | None = None  # what it says of its requests


def serving() -> dict[str, Promise]:
    """The services that hold capacity, or sleep: what each job file says, by id."""
    active = {"phase__in": ACTIVE, "kind": Kind.INFERENCE}
    rows = bulk.select(Workload, ("uid", "spec", "rollout"), active, order=("seq",))
    return {str(uid): _promise(spec, rollout) for uid, spec, rollout in rows}


def _promise(spec: Mapping[str, Any], rollout: Any) -> Promise:
    told = spec["normalised"]
    idle_after = told.get("scale_to_zero_after_seconds")
    idle = None if rollout is not None else idle_after
    native = Native((told.get("gateway") or {}).get("slots"), is_played=is_played()) if is_native(spec) else None
    profile = Profile(**told["profile"]) if told.get("profile") else None
    return Promise(told["objective"], idle, idle_after is not None, native, rooms.raised(told), profile)


def is_played() -> bool:
    """Whether the rule of Kubernetes' autoscaler is played here, as there is no Kubernetes."""
    return bool(settings.CLUSTER != "kubernetes")


def metrics(
    services: Mapping[str, Promise], scrapes: Mapping[str, Scrape], signals: Mapping[str, Signal] = NOTHING
) -> Metrics:
    """What was measured just now of these services, each with what is remembered of it."""
    uids = [UUID(uid) for uid in services]
    states, began = remembered(uids), starts(uids)
    began |= coldstart.learned([UUID(uid) for uid, promise in services.items() if promise.may_sleep])
    ready, loaded = _running(uids)
    targets = _targets([UUID(uid) for uid, promise in services.items() if promise.native is not None])
    limits = rooms.limits({UUID(uid): promise.limits for uid, promise in services.items() if promise.limits})
    return Metrics(
        {
            uid: ServiceMetrics(
                workload=uid,
                objective=Objective(**promise.objective) if promise.objective else None,
                scrape=scrapes.get(uid),
                state=states.get(uid),
                ready=ready.get(uid, 0),
                start_seconds=began.get(uid),
                signal=signals.get(uid),
                idle_after=promise.idle_after,
                loaded=loaded.get(uid, ()),
                native=promise.native and replace(promise.native, target=targets.get(uid)),
                limits=limits.get(uid),
                profile=promise.profile,
            )
            for uid, promise in services.items()
        }
    )


def remembered(uids: Sequence[UUID]) -> dict[str, State]:
    """What the autoscaler remembers of these services."""
    rows = bulk.select(ServiceState, ("workload", "state"), {"workload__among": uids})
    return {str(uid): lawstate.state_of(state) for uid, state in rows}


def _targets(uids: Sequence[UUID]) -> dict[str, float]:
    """The targets in force of these services, requests in flight for each replica."""
    rows = bulk.select(ServiceScaler, ("workload", "target"), {"workload__among": uids}) if uids else ()
    return {str(uid): target / 1000 for uid, target in rows if target is not None}


def borrowers(uids: Iterable[UUID]) -> list[UUID]:
    """The workloads with workers on the GPUs of these services' sleeping replicas."""
    live = {"lender__among": sorted(map(str, uids)), "state__not": PlacementState.RELEASED}
    return sorted({uid for (uid,) in bulk.select(Placement, ("workload_id",), live)})


def _running(uids: Sequence[UUID]) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Replicas that run and serve, as last observed; and, of services with standby, the ranks of all that run."""
    where = {
        "workload_id__among": uids,
        "is_settled": False,
        "pod_phase": "Running",
        "state__not": PlacementState.RELEASED,
    }
    ready: dict[str, int] = {}
    ranks: dict[str, list[int]] = {}
    have_standby: set[str] = set()
    for uid, rank, asleep_at, weights in bulk.select(Placement, _SEAT, where, order=("rank",)):
        name = str(uid)
        ready[name] = ready.get(name, 0) + (asleep_at is None and weights in ON_DEVICE)
        ranks.setdefault(name, []).append(rank)
        have_standby |= {name} if asleep_at is not None else set()
    return ready, {name: tuple(ranks[name]) for name in have_standby}


_SEAT = ("workload_id", "rank", "asleep_at", "weights")


def starts(uids: Sequence[UUID]) -> dict[str, float]:
    """Seconds from a place to a running replica, as the first one of each service took, its image's pull included."""
    began: dict[UUID, float] = {}
    for uid, bound in bulk.select(Placement, ("workload_id", "bound_at"), {"workload_id__among": uids, "attempt": 1}):
        if bound is not None:
            began[uid] = min(bound, began.get(uid, bound))
    rows = bulk.select(Workload, ("uid", "first_started_at"), {"uid__among": uids, "first_started_at__isnull": False})
    return {str(uid): min(MAX_START, max(1.0, ran - began[uid])) for uid, ran in rows if uid in began}
