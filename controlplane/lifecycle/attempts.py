"""How an attempt starts, succeeds, is stopped, and goes back to the queue."""

from collections.abc import Collection, Sequence

from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.ends import End, backoff_seconds
from controlplane.lifecycle.state import BOUND, REQUEUE, State
from scheduler.model.workload import ACTIVE, Phase

PREEMPTION_MEMORY_SECONDS = 86_400.0


def start(changes: Changes, row: State, at: float) -> None:
    """It runs since then; the first start of all its attempts is kept."""
    if row.started_at is None:
        changes.change(row, started_at=at, first_started_at=row.first_started_at or at)


def stop_attempt(changes: Changes, row: State, intent: str, reason: str, message: str) -> None:
    """End what is left of this attempt; `intent` says what comes then."""
    live = changes.live(row)
    changes.change(row, intent=intent, reason=reason, message=message)
    if not live:
        return
    if row.phase != Phase.DEGRADED:
        changes.move(row, Phase.DEGRADED, reason=reason, message=message)
    changes.leave(row, [seat for seat in live if seat.state == BOUND])


def succeed(changes: Changes, row: State, ends: Sequence[End]) -> None:
    """All workers are done; what we stopped on the way (a shrunk gang's, role members) does not count against it."""
    ended = max((end.seat.released_at or changes.at for end in ends), default=changes.at)
    started = row.started_at
    if started is None:  # it was over before it was seen running
        begun = [end.pod.started_at for end in ends if end.pod.started_at is not None]
        start(changes, row, min(max(begun, default=ended), ended))
    changes.change(row, ended_at=ended, exit_code=0, progress=1.0, intent="")
    changes.move(row, Phase.SUCCEEDED)


def requeue(changes: Changes, row: State, reason: str = "", message: str = "") -> None:
    """Back to the queue, with nothing held. Age and checkpoint are kept; the next attempt starts by a new decision."""
    known = [
        (at, by)
        for at, by in zip(row.preempted_at, row.preempted_by, strict=True)
        if at > changes.at - PREEMPTION_MEMORY_SECONDS
    ]
    changes.change(
        row,
        started_at=None,
        reserved_after=[],
        intent="",
        reason="",
        message="",
        preempted_at=[at for at, _ in known],
        preempted_by=[by for _, by in known],
    )
    changes.move(row, Phase.QUEUED, kind="Requeued", reason=reason, message=message)


def start_refused(changes: Changes, row: State, ranks: Collection[int], error: str) -> None:
    """What the cluster will not start goes back to the queue, and waits longer each time."""
    if row.phase not in ACTIVE or row.intent:
        return
    failures = row.failures + 1
    changes.change(row, failures=failures, not_before=changes.at + backoff_seconds(failures))
    message = f"The cluster did not start it: {error}"[:400]
    if row.is_service:
        changes.leave(row, [seat for seat in changes.live(row) if seat.rank in ranks])
        changes.note(row, "StartRefused", reason="StartRefused", message=message)
    else:
        stop_attempt(changes, row, REQUEUE, "StartRefused", message)
