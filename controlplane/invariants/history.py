"""S7 fencing, S10 no cycles, S12 state machine and S13 conservation: what the history must look like."""

from collections.abc import Iterator, Set

from controlplane.invariants.state import Account, Interval, State, Violation
from gpushare.gpu import WHOLE
from scheduler.model.workload import ENDED, Phase, Workload, may_move


def s7_fencing(state: State) -> tuple[Violation, ...]:
    """Every accepted write of a loop carried the epoch that its lease had then; epochs never go back.

    `writes` is the history (or the part since the last check) in the order in which writes were accepted.
    """
    found = []
    last: dict[str, int] = {}
    for write in state.writes:
        if write.epoch != write.current:
            message = f"A write with epoch {write.epoch} was accepted while the lease was at {write.current}."
            found.append(Violation("S7", write.loop, message))
        if write.epoch < last.get(write.loop, 0):
            message = f"A write with epoch {write.epoch} was accepted after one with {last[write.loop]}."
            found.append(Violation("S7", write.loop, message))
        last[write.loop] = max(write.epoch, last.get(write.loop, 0))
    return tuple(found)


def s10_cycles(state: State) -> tuple[Violation, ...]:
    """No workload is preempted too often, and no two workloads push each other out.

    Each time that is known is judged by the settings that it was decided by: within the window before it at most
    `max_preemptions`, itself included (by priority or by reclaim alike), and none is pushed out by one that it pushed
    out within the window. So settings that were made stricter since break nothing.
    """
    found = []
    for workload in state.subjects():
        found += [Violation("S10", workload.id, message) for message in dict.fromkeys(_too_often(state, workload))]
    return tuple(found)


def _too_often(state: State, workload: Workload) -> Iterator[str]:
    """A sentence for each time that should not have been."""
    for at, by in zip(workload.preempted_at, workload.preempted_by, strict=True):
        settings = state.settings_at(at)
        window, most = settings.preemption_window_seconds, settings.max_preemptions
        times = sum(at - window < one <= at for one in workload.preempted_at)
        if times > most:
            yield f"It was preempted {times} times within {window:.0f} s, the most is {most}."
        other = state.snapshot.workloads.get(by)
        if other is not None and any(
            pusher == workload.id and at - window < one <= at
            for one, pusher in zip(other.preempted_at, other.preempted_by, strict=True)
        ):
            yield f"It and {by} made each other leave within {window:.0f} s."


def s12_life_cycle(state: State) -> tuple[Violation, ...]:
    """Every change of phase is a step of the declared table, and each has exactly one record with an actor.

    With a state before, the records between must lead from the old phase to the new one without a gap.
    """
    if state.transitions is None:
        return ()
    found = []
    at: dict[str, Phase | None] = {}
    for step in state.transitions:
        before = at.get(step.workload, step.before)
        if before != step.before:
            message = f"A record says {step.before} -> {step.after}, but the phase was {before}."
            found.append(Violation("S12", step.workload, message))
        if step.before is not None and not may_move(step.before, step.after):
            message = f"{step.before} -> {step.after} is no step of the life cycle."
            found.append(Violation("S12", step.workload, message))
        if not step.actor:
            message = f"No actor is named for {step.before} -> {step.after}."
            found.append(Violation("S12", step.workload, message))
        at[step.workload] = step.after
    return (*found, *_unrecorded(state, at))


def _unrecorded(state: State, at: dict[str, Phase | None]) -> Iterator[Violation]:
    """Phases that differ from what the records lead to."""
    for workload in state.subjects():
        old = state.before.workloads.get(workload.id) if state.before else None
        told = at.get(workload.id, old.phase if old else None)
        if told is None and state.before is None:
            continue  # nothing is known about how it came here
        if told != workload.phase:
            yield Violation("S12", workload.id, f"The phase is {workload.phase}, the records lead to {told}.")
    for uid, told in at.items():
        if uid not in state.snapshot.workloads and state.ended.get(uid) != told:
            message = f"It ended as {state.ended.get(uid)}, the records lead to {told}."
            yield Violation("S12", uid, message)


def s13_conservation(state: State) -> tuple[Violation, ...]:
    """No workload vanishes, and GPU time is billed once, exactly, and never beyond what there is.

    Submitted = living + ended. Billed = sum over the workers of (end - start) x milli-GPU up to the moment of
    billing. The rate at one moment is the sum over all open holds, at most the hardware's.
    """
    found = [*_vanished(state)]
    accounts = state.accounts.keys() if state.only is None else state.only & state.accounts.keys()
    for uid in sorted(accounts):
        account = state.accounts[uid]
        owed = sum(_milli_seconds(hold, account.to) for hold in account.intervals)
        if account.billed != owed:
            message = f"It was billed {account.billed} milli-GPU seconds, its holds add up to {owed}."
            found.append(Violation("S13", uid, message))
        if seat := _held_twice(account):
            found.append(Violation("S13", uid, f"Rank {seat[1]} of attempt {seat[0]} is billed twice at a time."))
    capacity = sum(node.gpus for node in state.snapshot.inventory.nodes) * WHOLE
    if state.rate is not None and state.rate > capacity:
        found.append(Violation("S13", "cluster", f"{state.rate} milli-GPU are billed at a time, there are {capacity}."))
    return tuple(found)


def _vanished(state: State) -> Iterator[Violation]:
    if state.submitted is None:
        return
    living = state.snapshot.workloads.keys()
    adds_up = len(state.submitted) == len(living) + len(state.ended)
    known: Set[str] = {*state.submitted, *living, *state.ended} if state.only is None or not adds_up else state.only
    subjects = {uid for uid in known if uid in state.submitted or uid in living or uid in state.ended}
    for uid in sorted(subjects):
        places = (uid in living) + (uid in state.ended)
        if places != (uid in state.submitted):
            what = "was submitted" if uid in state.submitted else "was never submitted"
            yield Violation("S13", uid, f"It {what} and is found {places} times among living and ended.")
    for uid in sorted(subjects & state.ended.keys()):
        if state.ended[uid] not in ENDED:
            yield Violation("S13", uid, f"It counts as ended but is {state.ended[uid]}.")


def _milli_seconds(hold: Interval, to: float) -> int:
    """Whole seconds, as usage is accounted, so that parts of an interval add up exactly."""
    end = to if hold.end is None else min(hold.end, to)
    return hold.milli * max(0, int(end) - int(hold.start))


def _held_twice(account: Account) -> tuple[int, int] | None:
    """The (attempt, rank) whose holds overlap, if any."""
    last: dict[tuple[int, int], float] = {}
    for hold in sorted(account.intervals, key=lambda i: (i.attempt, i.rank, i.start)):
        seat = (hold.attempt, hold.rank)
        if hold.start < last.get(seat, float("-inf")):
            return seat
        last[seat] = float("inf") if hold.end is None else hold.end
    return None
