"""What time alone brings about: deadlines, run-time limits, gangs that never come together.

No pod reports these, so the observe loop looks for them every half minute of the cluster's clock.
"""

from uuid import UUID

from django.db.models import F, Q

from controlplane.cluster.port import PodPhase
from controlplane.models import Placement, Workload
from controlplane.services.outcomes import REQUEUE, settle, stop_attempt
from controlplane.services.rows import BOUND, Row
from controlplane.services.transitions import Batch
from scheduler.workload import ACTIVE, LEAVING, Kind, Phase

STALE_GANG_BACKOFF_SECONDS = 60.0
_UNPLACED = (Phase.QUEUED.value, Phase.HELD.value, Phase.RESERVED.value)
_UP = sorted(phase.value for phase in ACTIVE)
_GOING = sorted(phase.value for phase in LEAVING)


def enforce(batch: Batch, gang_timeout_seconds: float) -> None:
    """Expire, end and requeue what is due at `batch.at`."""
    late = Q(phase__in=_UNPLACED, deadline__lte=batch.at)
    long = Q(phase__in=_UP, max_seconds__isnull=False, started_at__lte=batch.at - F("max_seconds"))
    going = Q(phase__in=_GOING)
    due: set[UUID] = set(Workload.objects.filter(late | long | going).values_list("pk", flat=True))
    stale = set(_stale_gangs(batch.at - gang_timeout_seconds))
    batch.lock(due | stale)
    for uid in sorted(due):
        row = batch.rows[str(uid)]
        if row.phase.value in _UNPLACED:
            _expire(batch, row)
        elif row.phase in ACTIVE:
            _end(batch, row)
        else:
            settle(batch, row, ())  # all its workers may be gone already
    for uid in sorted(stale):
        _give_up(batch, batch.rows[str(uid)], gang_timeout_seconds)


def _expire(batch: Batch, row: Row) -> None:
    for seat in batch.live(row):
        batch.release(row, seat)
    batch.change(row, ended_at=batch.at)
    batch.move(row, Phase.EXPIRED, reason="DeadlineExceeded", message="Its deadline passed while it waited.")


def _end(batch: Batch, row: Row) -> None:
    message = "It ran as long as its max_duration allows."
    batch.move(row, Phase.STOPPING, reason="MaxDurationExceeded", message=message)
    batch.change(row, intent="", reason="MaxDurationExceeded", message=message)
    batch.leave(row, [seat for seat in batch.live(row) if seat.state == BOUND])


def _stale_gangs(before: float) -> list[UUID]:
    late = Placement.objects.filter(
        is_settled=False,
        state=BOUND,
        bound_at__lte=before,
        workload__phase__in=(Phase.ADMITTED.value, Phase.STARTING.value),
        workload__intent="",
    ).exclude(pod_phase=PodPhase.RUNNING.value)
    return list(late.exclude(workload__kind=Kind.INFERENCE.value).values_list("workload", flat=True).distinct())


def _give_up(batch: Batch, row: Row, gang_timeout_seconds: float) -> None:
    if row.phase not in (Phase.ADMITTED, Phase.STARTING) or row.intent:
        return
    pending = [str(seat.rank) for seat in batch.live(row) if seat.pod_phase != PodPhase.RUNNING]
    message = f"Workers {', '.join(pending[:8])} did not start within {gang_timeout_seconds:.0f} s; it is queued again."
    batch.change(row, not_before=batch.at + STALE_GANG_BACKOFF_SECONDS)
    stop_attempt(batch, row, REQUEUE, "GangTimeout", message)
