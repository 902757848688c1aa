"""What people ask of a workload: stop, suspend, resume, requeue. Each tells whether its phase allows that."""

from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.pods import settle
from controlplane.lifecycle.state import BOUND, REQUEUE, RESERVED, State
from scheduler.model.workload import ACTIVE, ENDED, LEAVING, Phase


def stop(changes: Changes, row: State, *, reason: str = "Stopped", message: str = "") -> None:
    """End it: at once if nothing of it runs, else when its pods are gone. Nothing happens if it has ended."""
    if row.phase in ENDED or row.phase == Phase.STOPPING:
        return
    if row.phase in ACTIVE or row.phase in LEAVING:
        _leave(changes, row, Phase.STOPPING, "", reason, message)
        return
    give_up_places(changes, row)
    changes.change(row, ended_at=changes.at)
    changes.move(row, Phase.STOPPED, reason=reason, message=message)


def suspend(changes: Changes, row: State, *, reason: str = "Suspended", message: str = "") -> bool:
    """Take it off the machines (its checkpoint is kept) or out of the queue, until it is resumed."""
    if row.phase in (Phase.HELD, Phase.SUSPENDED, Phase.SUSPENDING):
        return True
    if row.phase in ACTIVE and not row.intent:
        _leave(changes, row, Phase.SUSPENDING, "suspend", reason, message)
    elif row.phase in (Phase.QUEUED, Phase.RESERVED):
        give_up_places(changes, row)
        changes.change(row, reason=reason, message=message, reason_at=changes.at, reserved_after=[])
        changes.move(row, Phase.HELD, reason=reason, message=message)
    else:
        return False
    return True


def resume(changes: Changes, row: State, *, message: str = "") -> bool:
    """Queue a held or suspended workload again, behind those that waited meanwhile."""
    if row.phase in (Phase.HELD, Phase.SUSPENDED):
        changes.change(row, queued_at=changes.at, reason="", message="", intent="", started_at=None, moving=False)
        changes.move(row, Phase.QUEUED, kind="Resumed", message=message)
        return True
    return row.phase not in ENDED and row.phase not in LEAVING


def requeue(changes: Changes, row: State, *, message: str = "") -> bool:
    """End this attempt and queue the workload again; one that waits stays where it is."""
    if row.phase in ACTIVE and not row.intent:
        _leave(changes, row, Phase.SUSPENDING, REQUEUE, "Requeued", message)
    elif row.phase == Phase.RESERVED:
        give_up_places(changes, row)
        changes.change(row, reserved_after=[])
        changes.move(row, Phase.QUEUED, kind="Requeued", reason="Requeued", message=message)
    elif row.phase == Phase.QUEUED:
        changes.bump(row, not_before=None)
        changes.note(row, "Requeued", message=message)
    else:
        return row.phase in ACTIVE
    return True


def give_up_places(changes: Changes, row: State) -> None:
    """Places that were only reserved are free at once."""
    for seat in changes.live(row):
        if seat.state == RESERVED:
            changes.release(row, seat)


def _leave(changes: Changes, row: State, to: Phase, intent: str, reason: str, message: str) -> None:
    """Have its workers stopped; where there are none, it is there at once."""
    changes.change(row, intent=intent, reason=reason, message=message)
    changes.move(row, to, reason=reason, message=message)
    give_up_places(changes, row)
    changes.leave(row, [seat for seat in changes.live(row) if seat.state == BOUND])
    settle(changes, row, ())
