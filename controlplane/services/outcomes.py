"""What follows from what was seen of a workload's pods: the table of states and causes, in code.

Everything works on rows that a Batch has locked. A pod counts only for the placement of its own attempt and rank, and
a placement that was released stays so: observations that are late, doubled or out of order change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.cluster.port import ALIVE, PodPhase, PodSeen
from controlplane.models import Placement
from controlplane.services.rows import BOUND, LEAVING, Row, Seat
from controlplane.services.transitions import Batch
from scheduler.workload import ACTIVE, Kind, Phase
from scheduler.workload import LEAVING as LEAVING_PHASES

# Ends that are the machines' fault or our own doing: the job runs again, and its retries are not used up.
NOT_THE_JOBS_FAULT = frozenset({"NodeLost", "NodeShutdown", "PeerFailed", "Evicted", "Preempted", "Disappeared"})
BACKOFF_SECONDS = 10.0
BACKOFF_MOST_SECONDS = 600.0
REQUEUE, FAIL = "requeue", "fail"  # Workload.intent while workers are leaving
PREEMPTION_MEMORY_SECONDS = 86_400.0


def backoff_seconds(failures: int) -> float:
    """How long a job waits after its n-th failure: 10 s, 20 s, 40 s ... at most 10 minutes."""
    return min(BACKOFF_MOST_SECONDS, BACKOFF_SECONDS * 2.0 ** max(0, min(failures, 20) - 1))


@dataclass(frozen=True, slots=True)
class End:
    """A worker that has ended, and whether we had asked it to."""

    seat: Seat
    pod: PodSeen
    was_leaving: bool

    @property
    def is_success(self) -> bool:
        """Whether it did all it had to do."""
        return self.pod.phase == PodPhase.SUCCEEDED

    @property
    def counts(self) -> bool:
        """Whether this failure uses up a retry."""
        return self.pod.phase == PodPhase.FAILED and self.pod.reason not in NOT_THE_JOBS_FAULT

    @property
    def why(self) -> str:
        """A reason code."""
        if self.pod.phase == PodPhase.FAILED:
            return self.pod.reason or "Failed"
        return self.pod.reason or ("Completed" if self.is_success else "Disappeared")


def see(batch: Batch, row: Row, pods: Sequence[PodSeen]) -> list[End]:
    """Take note of pods; tell which workers ended just now."""
    seats = {(seat.attempt, seat.rank): seat for seat in batch.live(row) if seat.bound_at is not None}
    ends: list[End] = []
    for pod in pods:
        seat = seats.get((pod.attempt, pod.rank))
        if seat is None or not seat.is_live:
            continue
        _see_progress(batch, row, pod)
        if pod.phase in ALIVE:
            if pod.phase != seat.pod_phase and seat.pod_phase != PodPhase.RUNNING:
                seat.pod_phase, seat.is_changed = pod.phase.value, True
            continue
        ends.append(End(seat, pod, seat.state == LEAVING))
        batch.release(row, seat, pod.ended_at, pod.phase.value)
    return ends


def _see_progress(batch: Batch, row: Row, pod: PodSeen) -> None:
    if pod.checkpointed_at is not None and pod.checkpointed_at > (row.checkpointed_at or 0.0):
        batch.change(row, checkpointed_at=pod.checkpointed_at)
    if pod.progress is not None and pod.progress > (row.progress or 0.0):
        batch.change(row, progress=pod.progress)


def settle(batch: Batch, row: Row, ends: Sequence[End], pods: Sequence[PodSeen] = ()) -> None:
    """Move a workload to where its workers say it is."""
    for seat in batch.live(row):
        if seat.state == LEAVING and seat.bound_at is None:  # a place that was only reserved: nothing has to stop
            batch.release(row, seat)
    if row.phase in LEAVING_PHASES:
        _leave(batch, row, ends)
    elif row.phase in ACTIVE and row.is_service:
        _serve(batch, row, ends)
    elif row.phase in ACTIVE:
        _run(batch, row, ends, pods)


# --- training and notebooks: one gang, all or nothing -----------------------------------------


def _run(batch: Batch, row: Row, ends: Sequence[End], pods: Sequence[PodSeen]) -> None:
    bad = [end for end in ends if not end.was_leaving and not end.is_success]
    if bad and not row.intent:
        _break(batch, row, bad)
    live = batch.live(row)
    if live and not row.finishing and any(end.is_success and not end.was_leaving for end in ends):
        batch.bump(row, finishing=True)
    if not live and row.intent:
        _after_break(batch, row)
    elif not live and ends:
        _succeed(batch, row, ends)
    elif live and not row.intent:  # with an intent it waits for its last workers to leave
        if row.roles and all(seat.rank < row.companions for seat in live):
            _release_companions(batch, row, live)
        else:
            _come_up(batch, row, live, pods)


def _release_companions(batch: Batch, row: Row, live: Sequence[Seat]) -> None:
    """Once all workers are done their companions are stopped: a parameter server does not end by itself."""
    batch.leave(row, [seat for seat in live if seat.state == BOUND])


def _come_up(batch: Batch, row: Row, live: Sequence[Seat], pods: Sequence[PodSeen]) -> None:
    if all(seat.pod_phase == PodPhase.RUNNING for seat in live):
        if row.phase != Phase.RUNNING:
            started = max((p.started_at for p in pods if p.started_at is not None), default=batch.at)
            _start(batch, row, min(started, batch.at))
            batch.move(row, Phase.RUNNING)
    elif row.phase == Phase.ADMITTED and any(seat.pod_phase for seat in live):
        batch.move(row, Phase.STARTING)


def _start(batch: Batch, row: Row, at: float) -> None:
    if row.started_at is None:
        batch.change(row, started_at=at, first_started_at=row.first_started_at or at)


def _break(batch: Batch, row: Row, bad: Sequence[End]) -> None:
    """A worker of a gang ended badly: its peers leave too, then the job is queued again or has failed."""
    counted = next((end for end in bad if end.counts), None)
    end = counted or bad[0]
    code = end.pod.exit_code
    role, number = row.role_of(end.seat.rank)
    what = f"{role.capitalize()} {number} on {end.seat.node} ended: {end.why}" + (f", exit code {code}" if code else "")
    if counted is None:
        stop_attempt(batch, row, REQUEUE, end.why, f"{what}. It runs again; this does not count as a failure.")
        return
    failures = row.failures + 1
    if failures > row.retries:
        batch.change(row, failures=failures, exit_code=code)
        stop_attempt(batch, row, FAIL, end.why, f"{what}. No retries are left ({row.retries} allowed).")
        return
    wait = backoff_seconds(failures)
    batch.change(row, failures=failures, exit_code=code, not_before=batch.at + wait, queued_at=batch.at)
    stop_attempt(batch, row, REQUEUE, end.why, f"{what}. Retry {failures} of {row.retries} in {wait:.0f} s.")


def stop_attempt(batch: Batch, row: Row, intent: str, reason: str, message: str) -> None:
    """End what is left of this attempt; `intent` says what comes then."""
    live = batch.live(row)
    batch.change(row, intent=intent, reason=reason, message=message)
    if not live:
        return
    if row.phase != Phase.DEGRADED:
        batch.move(row, Phase.DEGRADED, reason=reason, message=message)
    batch.leave(row, [seat for seat in live if seat.state == BOUND])


def _after_break(batch: Batch, row: Row) -> None:
    reason, message = row.reason, row.message
    if row.intent == FAIL:
        batch.change(row, ended_at=batch.at)
        batch.move(row, Phase.FAILED, reason=reason, message=message)
    else:
        requeue(batch, row, reason, message)


def _succeed(batch: Batch, row: Row, ends: Sequence[End]) -> None:
    """All workers are done; what we stopped on the way (a shrunk gang's, companions) does not count against it."""
    ended = max((end.seat.released_at or batch.at for end in ends), default=batch.at)
    started = row.started_at
    if started is None:  # it was over before it was seen running
        begun = [end.pod.started_at for end in ends if end.pod.started_at is not None]
        _start(batch, row, min(max(begun, default=ended), ended))
    batch.change(row, ended_at=ended, exit_code=0, progress=1.0)
    batch.move(row, Phase.SUCCEEDED)


def requeue(batch: Batch, row: Row, reason: str = "", message: str = "") -> None:
    """Back to the queue, with nothing held. Age and checkpoint are kept; the next attempt starts by a new decision."""
    known = [
        (at, by)
        for at, by in zip(row.preempted_at, row.preempted_by, strict=True)
        if at > batch.at - PREEMPTION_MEMORY_SECONDS
    ]
    batch.change(
        row,
        started_at=None,
        reserved_after=[],
        intent="",
        reason="",
        message="",
        preempted_at=[at for at, _ in known],
        preempted_by=[by for _, by in known],
    )
    batch.move(row, Phase.QUEUED, kind="Requeued", reason=reason, message=message)


# --- services: replicas come and go one by one ------------------------------------------------


def _serve(batch: Batch, row: Row, ends: Sequence[End]) -> None:
    lost = [end for end in ends if not end.was_leaving]
    if any(end.counts for end in lost):  # a crashing replica is started again, ever more slowly
        failures = row.failures + 1
        batch.change(row, failures=failures, not_before=batch.at + backoff_seconds(failures))
    staying = [seat for seat in batch.live(row) if seat.state != LEAVING]
    running = sum(seat.pod_phase == PodPhase.RUNNING for seat in staying)
    to = _service_phase(row, len(staying), running, bool(lost), any(seat.pod_phase for seat in staying))
    if lost:
        batch.bump(row)  # the scheduler must see the gap
    if to == row.phase:
        return
    if to == Phase.RUNNING:
        _start(batch, row, batch.at)
    message = ""
    if lost:
        message = f"Replica {lost[0].seat.rank} on {lost[0].seat.node} ended: {lost[0].why}. Another is wanted."
    batch.move(row, to, reason=lost[0].why if lost else "", message=message, data={"running": running})


def _service_phase(row: Row, placed: int, running: int, has_lost: bool, is_seen: bool) -> Phase:
    """Running: all that are wanted run. Scaling: more are on their way. Degraded: one that ran was lost."""
    if running and running == placed >= row.workers:
        return Phase.RUNNING
    if has_lost or (row.phase == Phase.DEGRADED and running < row.workers):
        return Phase.DEGRADED
    if running:
        return Phase.SCALING
    if row.phase == Phase.ADMITTED and is_seen:
        return Phase.STARTING
    return row.phase


# --- leaving ----------------------------------------------------------------------------------


def _leave(batch: Batch, row: Row, ends: Sequence[End]) -> None:
    if batch.live(row):
        return
    if row.kind == Kind.TRAINING and ends and _has_succeeded(row, ends):
        _succeed(batch, row, ends)
        return
    reason, message = row.reason, row.message
    if row.phase == Phase.CHECKPOINTING:
        batch.move(row, Phase.PREEMPTED, reason=reason, message=message)
        requeue(batch, row, reason, message)
    elif row.phase == Phase.SUSPENDING:
        batch.change(row, started_at=None)
        batch.move(row, Phase.SUSPENDED, reason=reason, message=message)
        if row.intent == REQUEUE:
            batch.change(row, queued_at=batch.at)
            requeue(batch, row, reason, message)
    else:
        batch.change(row, ended_at=batch.at)
        batch.move(row, Phase.STOPPED, reason=reason, message=message)


def _has_succeeded(row: Row, ends: Sequence[End]) -> bool:
    """Whether every worker of the attempt had done its work before it could be stopped."""
    if not all(end.is_success for end in ends if end.seat.rank >= row.companions):
        return False
    # Companions are stopped when the workers are done, so how they end does not matter.
    others = Placement.objects.filter(workload=row.uid, attempt=row.attempt, rank__gte=row.companions).exclude(
        pk__among=[end.seat.pk for end in ends]
    )
    return not others.exclude(pod_phase=PodPhase.SUCCEEDED.value).exists()
