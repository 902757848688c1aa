"""Finds what time alone brings about (controlplane/lifecycle/timeouts.py), and has it happen.

No pod reports it, so the observe loop looks for it every half minute of the cluster's clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from django.conf import settings
from django.db.models import F, QuerySet

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle import resizing as lifecycle
from controlplane.lifecycle import rollouts, timeouts, weights
from controlplane.lifecycle.canaries import Judged
from controlplane.lifecycle.following import GATED
from controlplane.lifecycle.pods import settle
from controlplane.lifecycle.state import BOUND
from controlplane.lifecycle.timeouts import COMING_UP, UNPLACED
from controlplane.models import Dependency, Placement, PlacementState, Workload, bulk
from controlplane.models.lookups import Where
from controlplane.services.scheduling import revising
from controlplane.services.workloads import resizing
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch
from scheduler.model.workload import ACTIVE, ENDED, LEAVING, Kind

_PROMISED: Where = {
    "is_settled": False,
    "bound_at__isnull": True,
    "state__in": (PlacementState.RESERVED, PlacementState.LEAVING),
}
_RESIZING: Where = {"resize__isnull": False}
_ROLLING: Where = {"rollout__isnull": False}


def _moving(at: float) -> Where:
    """Replicas of which the weights were told to move so long ago that the command may be lost."""
    return {"is_settled": False, "weights__in": weights.ON_THEIR_WAY, "weights_at__lte": at - weights.OVERDUE_SECONDS}


def is_due(*, at: float, gang_timeout_seconds: float) -> bool:
    """Whether `enforce`, or admission to reserved places, has anything to look at; asked without a transaction."""
    return bool(
        _over(at).exists()
        or _late(at - gang_timeout_seconds).exists()
        or bulk.select(Placement, ("workload_id",), _PROMISED, limit=1)
        or _overtaken()
        or bulk.select(Workload, ("uid",), _RESIZING, limit=1)
        or bulk.select(Workload, ("uid",), _ROLLING, limit=1)
        or bulk.select(Placement, ("workload_id",), _moving(at), limit=1)
    )


def _over(at: float) -> QuerySet[Workload, tuple[UUID, str]]:
    """(uid, phase) of what a limit or time alone moves on: each part finds its few rows by an index."""
    columns = ("uid", "phase")
    late = Workload.objects.filter(phase__in=[p.value for p in UNPLACED], deadline__lte=at)
    limited = Workload.objects.alias(ends=F("started_at") + F("max_seconds"))
    long = limited.filter(phase__in=[p.value for p in ACTIVE], ends__lte=at)
    leaving = Workload.objects.filter(phase__in=[p.value for p in LEAVING])
    return late.values_list(*columns).union(long.values_list(*columns), leaving.values_list(*columns), all=True)


def _late(since: float) -> QuerySet[Placement]:
    """Places that were bound before, of gangs that come up, and whose pod does not run."""
    bound = Placement.objects.filter(is_settled=False, state=BOUND, bound_at__lte=since)
    coming_up = bound.filter(workload__intent="", workload__phase__in=[p.value for p in COMING_UP])
    return coming_up.exclude(pod_phase=PodPhase.RUNNING.value).exclude(workload__kind=Kind.INFERENCE.value)


def _overtaken() -> frozenset[UUID]:
    """Workloads that have ended while others still wait for them: left over by a version that did not follow that."""
    gated = Dependency.objects.filter(workload__phase__in=[p.value for p in GATED])
    ended = gated.filter(needs__phase__in=[p.value for p in ENDED]).exclude(workload__unmet=[])
    links = ended.values_list("needs_id", "needs__name", "workload__unmet")
    return frozenset(uid for uid, name, unmet in links if name in unmet)


@dataclass(frozen=True, slots=True)
class Due:
    """What nothing but time moves on: workloads with their phase as stored, gangs that come up late, gates."""

    phases: Mapping[UUID, str] = field(default_factory=dict)
    late: frozenset[UUID] = frozenset()
    overtaken: frozenset[UUID] = frozenset()  # have ended, and others wait for them
    resizing: frozenset[UUID] = frozenset()  # their CPU and memory are being changed in place
    moving: frozenset[UUID] = frozenset()  # weights of theirs are long on their way
    rolling: frozenset[UUID] = frozenset()  # a revision of theirs replaces the one before


def due(at: float, gang_timeout_seconds: float) -> Due:
    """What `enforce` has to look at. To be asked before anything is locked, and locked with all the rest."""
    phases = dict(_over(at))
    late = frozenset(_late(at - gang_timeout_seconds).values_list("workload_id", flat=True))
    resized = frozenset(uid for (uid,) in bulk.select(Workload, ("uid",), _RESIZING))
    moving = frozenset(uid for (uid,) in bulk.select(Placement, ("workload_id",), _moving(at)))
    return Due(phases, late, _overtaken(), resized, moving, rolling())


def rolling() -> frozenset[UUID]:
    """The services of which a revision replaces the one before."""
    return frozenset(uid for (uid,) in bulk.select(Workload, ("uid",), _ROLLING))


def promised() -> list[UUID]:
    """The workloads with places that others still have to leave."""
    return list({uid for (uid,) in bulk.select(Placement, ("workload_id",), _PROMISED)})


def enforce(
    batch: Batch,
    found: Due,
    gang_timeout_seconds: float,
    standings: Mapping[str, str],
    judged: Mapping[str, Judged] = MappingProxyType({}),
) -> None:
    """Expire, end and requeue what was found due. standings, judged: of services, by id (revising.conclude)."""
    batch.lock({*found.phases, *found.late, *found.overtaken, *found.resizing, *found.moving, *found.rolling})
    for uid in sorted(found.overtaken):
        batch.followed(batch.rows[str(uid)])
    for uid, stored in sorted(found.phases.items()):
        # Why a row is due follows from its phase as stored: the pods of this observation may have moved it on since.
        row = batch.rows[str(uid)]
        if stored in UNPLACED and row.phase in UNPLACED:
            timeouts.expire(batch, row)
        elif stored in ACTIVE and row.phase in ACTIVE:
            timeouts.end(batch, row)
        elif row.phase in LEAVING:
            settle(batch, row, ())  # all its workers may be gone already
    for uid in sorted(found.late):
        timeouts.give_up(batch, batch.rows[str(uid)], gang_timeout_seconds)
    _end_resizes(batch, [batch.rows[str(uid)] for uid in sorted(found.resizing)])
    weights.repeat(batch, [batch.rows[str(uid)] for uid in sorted(found.moving)])
    rolled = [batch.rows[str(uid)] for uid in sorted(found.rolling)]
    for row in rolled:
        rollouts.go_on(batch, row)
    revising.conclude(batch, rolled, standings, judged)
    revising.step(batch, rolled, judged)


def _end_resizes(batch: Batch, rows: Sequence[Row]) -> None:
    """Finish those whose last worker of the old size has left, and put back those that take too long."""
    resizing.conclude(batch, rows)
    for row in rows:
        if (why := lifecycle.overdue(batch, row, settings.RESIZE_SECONDS)) is not None:
            resizing.give_up(batch, row, *why)
