"""What time alone brings about: deadlines, run-time limits, gangs that never come together. No pod reports these."""

from collections.abc import Sequence

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle.attempts import stop_attempt
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.requests import stop
from controlplane.lifecycle.state import BOUND, REQUEUE, Seat, State
from scheduler.model.workload import Phase

STALE_GANG_BACKOFF_SECONDS = 60.0
COMING_UP = (Phase.ADMITTED, Phase.STARTING, Phase.SCALING)
UNPLACED = (Phase.QUEUED, Phase.HELD, Phase.RESERVED)


def expire(changes: Changes, row: State) -> None:
    """Its deadline passed before it got its places."""
    for seat in changes.live(row):
        changes.release(row, seat)
    changes.change(row, ended_at=changes.at)
    changes.move(row, Phase.EXPIRED, reason="DeadlineExceeded", message="Its deadline passed while it waited.")


def end(changes: Changes, row: State) -> None:
    """It has run as long as it may: its workers are stopped. One without any, as a service asleep, ends at once."""
    stop(changes, row, reason="MaxDurationExceeded", message="It ran as long as its max_duration allows.")


def give_up(changes: Changes, row: State, gang_timeout_seconds: float) -> None:
    """Some of its workers did not come up in time: the gang is queued again, or goes on without them."""
    if row.phase not in COMING_UP or row.intent:
        return
    late = [seat for seat in changes.live(row) if seat.pod_phase != PodPhase.RUNNING and seat.state == BOUND]
    what = f"{_named(row, late[:8])} did not start within {gang_timeout_seconds:.0f} s"
    if row.phase == Phase.SCALING:  # an elastic gang goes on without those by which it was to grow
        changes.bump(row, scaled_at=changes.at)
        ranks = [seat.rank for seat in late]
        changes.note(row, "Shrunk", message=f"{what}; it goes on without them.", data={"ranks": ranks})
        changes.leave(row, late)
        return
    message = f"{what}; it is queued again."
    changes.change(row, not_before=changes.at + STALE_GANG_BACKOFF_SECONDS)
    stop_attempt(changes, row, REQUEUE, "GangTimeout", message)


def _named(row: State, seats: Sequence[Seat]) -> str:
    if not row.roles:
        return f"Workers {', '.join(str(seat.rank) for seat in seats)}"
    return ", ".join("{} {}".format(*row.role_of(seat.rank)) for seat in seats).capitalize()
