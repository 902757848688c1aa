"""Training and notebooks: one gang, all or nothing."""

from collections.abc import Sequence

from controlplane.cluster.port import PodPhase, PodSeen
from controlplane.lifecycle.attempts import requeue, start, stop_attempt, succeed
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.ends import REFUSED_SECONDS, End, backoff_seconds
from controlplane.lifecycle.state import BOUND, FAIL, REQUEUE, SUCCEED, Seat, State
from scheduler.model.workload import Phase


def run(changes: Changes, row: State, ends: Sequence[End], pods: Sequence[PodSeen]) -> None:
    """What the pods of an active gang, and those of its workers that have ended just now, mean for it."""
    bad = [end for end in ends if not end.was_leaving and not end.is_success]
    if bad and not row.intent:
        _break(changes, row, bad)
    live = changes.live(row)
    if live and not row.finishing and any(end.is_success and not end.was_leaving for end in ends):
        changes.bump(row, finishing=True)
    _fill_in_code(changes, row, ends)
    if not live and row.intent:
        _after_break(changes, row)
    elif not live and ends:
        succeed(changes, row, ends)
    elif live and not row.intent:  # with an intent it waits for its last workers to leave
        if row.roles and not row.is_owned and all(seat.rank < row.role_members for seat in live):
            _release_role_members(changes, row, live)
        elif row.finishing and not any(seat.pod_phase == PodPhase.RUNNING for seat in live):
            _release_late(changes, row, live)
        else:
            _come_up(changes, row, live, pods)


def _release_role_members(changes: Changes, row: State, live: Sequence[Seat]) -> None:
    """Once all workers are done the role members are stopped: a parameter server does not end by itself."""
    changes.leave(row, [seat for seat in live if seat.state == BOUND])


def _release_late(changes: Changes, row: State, live: Sequence[Seat]) -> None:
    """The others are done: workers that the gang was given last, and that do not run yet, would find no peers."""
    changes.leave(row, [seat for seat in live if seat.state == BOUND])


def _come_up(changes: Changes, row: State, live: Sequence[Seat], pods: Sequence[PodSeen]) -> None:
    if all(seat.pod_phase == PodPhase.RUNNING for seat in live):
        if row.phase != Phase.RUNNING:
            started = max((p.started_at for p in pods if p.started_at is not None), default=changes.at)
            start(changes, row, min(started, changes.at))
            changes.move(row, Phase.RUNNING)
    elif row.phase == Phase.ADMITTED and any(seat.pod_phase for seat in live):
        changes.move(row, Phase.STARTING)


def _break(changes: Changes, row: State, bad: Sequence[End]) -> None:
    """A worker of a gang ended badly: its peers leave too, then the job is queued again or has failed."""
    # The controller of an owned job takes its other pods away once one of them has failed.
    is_cleared = row.is_owned and any(end.counts for end in bad)
    of_machine = next(
        (end for end in bad if end.is_machines_fault and not (is_cleared and end.why == "Disappeared")), None
    )
    counted = None if of_machine else next((end for end in bad if end.counts), None)
    refused = next((end for end in bad if end.is_refused), None)
    end = of_machine or counted or refused or bad[0]
    code = end.pod.exit_code
    role, number = row.role_of(end.seat.rank)
    what = f"{role.capitalize()} {number} on {end.seat.node} ended: {end.why}" + (f", exit code {code}" if code else "")
    what += f" ({end.pod.message})" if end.pod.message else ""
    if end is refused:
        changes.change(row, not_before=changes.at + REFUSED_SECONDS)
        what = f"Node {end.seat.node} did not start {role} {number}: {end.why}" + (
            f" ({end.pod.message})" if end.pod.message else ""
        )
        again = f"It is tried again in {REFUSED_SECONDS:.0f} s; this does not count as a failure."
        stop_attempt(changes, row, REQUEUE, end.why, f"{what}. {again}")
        return
    if counted is None:
        stop_attempt(changes, row, REQUEUE, end.why, f"{what}. It runs again; this does not count as a failure.")
        return
    if row.batch_before and row.batch_before != row.batch:
        again = f"It had a batch of {row.batch} on trial and runs again with {row.batch_before}; this does not count."
        changes.change(row, batch=row.batch_before, batch_before=None)
        stop_attempt(changes, row, REQUEUE, end.why, f"{what}. {again}")
        return
    failures = row.failures + 1
    if failures > row.retries:
        changes.change(row, failures=failures, exit_code=code)
        stop_attempt(changes, row, FAIL, end.why, f"{what}. No retries are left ({row.retries} allowed).")
        return
    wait = backoff_seconds(failures)
    changes.change(row, failures=failures, exit_code=code, not_before=changes.at + wait, queued_at=changes.at)
    stop_attempt(changes, row, REQUEUE, end.why, f"{what}. Retry {failures} of {row.retries} in {wait:.0f} s.")


def _fill_in_code(changes: Changes, row: State, ends: Sequence[End]) -> None:
    """Its object said that it has failed before the pod was seen whose end that was: that pod failed by itself, first.

    What answers to a stop is no failure (podstatus), so a worker that we or its controller ended is none of these; one
    that is gone has a code only if it ended in the very second of the stop.
    """
    if not row.is_owned or row.intent != FAIL or row.exit_code is not None:
        return
    failed = [end for end in ends if end.pod.exit_code and (end.counts or end.pod.phase == PodPhase.GONE)]
    if failed:
        first = min(failed, key=lambda end: (end.pod.ended_at or changes.at, end.seat.rank))
        changes.change(row, exit_code=first.pod.exit_code)


def _after_break(changes: Changes, row: State) -> None:
    reason, message = row.reason, row.message
    if row.intent == FAIL:
        changes.change(row, ended_at=changes.at)
        changes.move(row, Phase.FAILED, reason=reason, message=message)
    elif row.intent == SUCCEED:
        succeed(changes, row, ())
    else:
        requeue(changes, row, reason, message)
