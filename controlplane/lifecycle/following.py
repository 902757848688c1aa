"""What has started or ended was waited for: that wait is over, or can never be, which ends the workload that waits."""

from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.state import State
from scheduler.model.dependency import DEPENDENCY_FAILED, never, verdict
from scheduler.model.workload import ENDED, Phase

GATED = (Phase.SUBMITTED, Phase.QUEUED, Phase.HELD)  # may still be ended for what they start after


def follow(changes: Changes, dependent: State, row: State, phase: Phase, when: str) -> bool:
    """`row` has come to a phase, and `dependent` starts when it is as `when` says; tell whether that means anything."""
    if row.name not in dependent.unmet or dependent.phase in ENDED:
        return False
    is_met = verdict(when, row.kind, phase)
    if is_met:
        changes.change(dependent, unmet=[name for name in dependent.unmet if name != row.name])
    elif is_met is False and dependent.phase in GATED:
        changes.change(dependent, ended_at=changes.at)
        message = never(row.name, when, row.kind, phase)
        data = {"needs": row.id}
        changes.move(dependent, Phase.STOPPED, reason=DEPENDENCY_FAILED, message=message, data=data)
    else:
        return False
    return True
