"""A workload that was asked to leave, once its last worker is gone."""

from collections.abc import Sequence

from controlplane.jobspec.podsets import recounted
from controlplane.lifecycle.attempts import requeue, succeed
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.ends import End
from controlplane.lifecycle.state import REQUEUE, State
from scheduler.model.workload import Kind, Phase


def leave(changes: Changes, row: State, ends: Sequence[End]) -> None:
    """It succeeded after all, is queued again, suspended, or stopped: as it was asked to, and as its workers ended."""
    if changes.live(row):
        return
    if row.kind == Kind.TRAINING and ends and _has_succeeded(changes, row, ends):
        succeed(changes, row, ends)
        return
    reason, message = row.reason, row.message
    if row.phase == Phase.CHECKPOINTING:
        kind = "Moved" if row.moving and row.goes_to else ""  # by its own wish: no other workload preempted it
        if row.moving and row.role_counts:  # its members are gone, so from now on its roles have other ones
            changes.change(row, roles=recounted(row.roles, row.role_counts))
        if row.moving and row.batch_wanted:
            before = None if row.batch_before == row.batch_wanted else row.batch_before
            changes.change(row, batch=row.batch_wanted, batch_before=before)
        changes.move(row, Phase.PREEMPTED, kind=kind, reason=reason, message=message)
        requeue(changes, row, reason, message)
    elif row.phase == Phase.SUSPENDING:
        changes.change(row, started_at=None)
        changes.move(row, Phase.SUSPENDED, reason=reason, message=message)
        if row.intent == REQUEUE:
            changes.change(row, queued_at=changes.at)
            requeue(changes, row, reason, message)
    else:
        changes.change(row, ended_at=changes.at)
        changes.move(row, Phase.STOPPED, reason=reason, message=message)


def _has_succeeded(changes: Changes, row: State, ends: Sequence[End]) -> bool:
    """Whether every worker of the attempt had done its work before it could be stopped."""
    if not all(end.is_success for end in ends if end.seat.rank >= row.role_members):
        return False
    return not changes.unfinished(row, [end.seat for end in ends])
