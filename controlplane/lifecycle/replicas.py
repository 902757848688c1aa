"""Services: replicas come and go one by one."""

from collections.abc import Sequence

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle import rollouts
from controlplane.lifecycle.attempts import start
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.ends import REFUSED_SECONDS, End, backoff_seconds
from controlplane.lifecycle.state import LEAVING, State
from scheduler.model.workload import Phase


def serve(changes: Changes, row: State, ends: Sequence[End]) -> None:
    """What the replicas that run, and those that have ended just now, mean for an active service."""
    lost = [end for end in ends if not end.was_leaving]
    if any(end.counts for end in lost):  # a crashing replica is started again, ever more slowly
        failures = row.failures + 1
        changes.change(row, failures=failures, not_before=changes.at + backoff_seconds(failures))
    elif any(end.is_refused for end in lost):
        changes.change(row, not_before=changes.at + REFUSED_SECONDS)
    rollouts.see(changes, row, ends)
    staying = [seat for seat in changes.live(row) if seat.state != LEAVING]
    running = sum(seat.pod_phase == PodPhase.RUNNING for seat in staying)
    to = _service_phase(row, len(staying), running, bool(lost), any(seat.pod_phase for seat in staying))
    if lost:
        changes.bump(row)  # the scheduler must see the gap
    if to == row.phase:
        return
    if to == Phase.RUNNING:
        start(changes, row, changes.at)
    message = ""
    if lost:
        message = f"Replica {lost[0].seat.rank} on {lost[0].seat.node} ended: {lost[0].why}. Another is wanted."
    changes.move(row, to, reason=lost[0].why if lost else "", message=message, data={"running": running})


def _service_phase(row: State, placed: int, running: int, has_lost: bool, is_seen: bool) -> Phase:
    """Running: all that are wanted run, or none is. Scaling: more are on their way. Degraded: one that ran was lost."""
    if running == placed >= row.workers and (running or not row.workers):
        return Phase.RUNNING
    if has_lost or (row.phase == Phase.DEGRADED and running < row.workers):
        return Phase.DEGRADED
    if running:
        return Phase.SCALING
    if row.phase == Phase.ADMITTED and is_seen:
        return Phase.STARTING
    return row.phase
