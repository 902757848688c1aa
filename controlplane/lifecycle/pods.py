"""What follows from what was seen of a workload's pods.

A pod counts only for the place of its own attempt and rank, and a place that was released stays so: observations that
are late, doubled or out of order change nothing.
"""

from collections.abc import Sequence

from controlplane.cluster.port import ALIVE, PodPhase, PodSeen
from controlplane.lifecycle import gangs, leaving, replicas, weights
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.ends import End
from controlplane.lifecycle.state import LEAVING, State
from scheduler.model.workload import ACTIVE
from scheduler.model.workload import LEAVING as LEAVING_PHASES


def see(changes: Changes, row: State, pods: Sequence[PodSeen]) -> list[End]:
    """Take note of pods; tell which workers ended just now."""
    seats = {(seat.attempt, seat.rank): seat for seat in changes.live(row) if seat.bound_at is not None}
    ends: list[End] = []
    for pod in pods:
        seat = seats.get((pod.attempt, pod.rank))
        if seat is None or not seat.is_live:
            continue
        _see_progress(changes, row, pod)
        if pod.phase in ALIVE:
            weights.see(changes, row, seat, pod)
            if pod.phase != seat.pod_phase and seat.pod_phase != PodPhase.RUNNING:
                seat.pod_phase, seat.is_changed = pod.phase.value, True
            continue
        ends.append(End(seat, pod, seat.state == LEAVING))
        changes.release(row, seat, pod.ended_at, pod.phase.value)
    return ends


def _see_progress(changes: Changes, row: State, pod: PodSeen) -> None:
    if pod.checkpointed_at is not None and pod.checkpointed_at > (row.checkpointed_at or 0.0):
        changes.change(row, checkpointed_at=pod.checkpointed_at)
    if pod.progress is not None and pod.progress > (row.progress or 0.0):
        changes.change(row, progress=pod.progress)


def settle(changes: Changes, row: State, ends: Sequence[End], pods: Sequence[PodSeen] = ()) -> None:
    """Move a workload to where its workers say it is."""
    for seat in changes.live(row):
        if seat.state == LEAVING and seat.bound_at is None:  # a place that was only reserved: nothing has to stop
            changes.release(row, seat)
    if row.phase in LEAVING_PHASES:
        leaving.leave(changes, row, ends)
    elif row.phase in ACTIVE and row.is_service:
        replicas.serve(changes, row, ends)
    elif row.phase in ACTIVE:
        gangs.run(changes, row, ends, pods)
