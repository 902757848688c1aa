"""What each decision of a round means: what the core says of the workload, its places, events and commands."""

from collections.abc import Sequence
from typing import Any, assert_never

from autoscaler.decision import Scale
from controlplane.lifecycle import canaries, weights
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.stale import Made, Waiting
from controlplane.lifecycle.state import BOUND, LEAVING, RESERVED, Seat, State
from scheduler.model.applied import becomes, leaves
from scheduler.model.decision import Evict, Offload, Place, Shrink, Wait
from scheduler.model.mention import counted, mention
from scheduler.model.workload import ON_DEVICE, Phase, may_move

_COLUMNS = {"after": "reserved_after"}  # fields that are stored under another name


def apply(changes: Changes, row: State, decision: Made) -> None:
    """Do to a workload what was decided about it. Why it waits is written by itself: `tell`."""
    match decision:
        case Place():
            _place(changes, row, decision)
        case Evict():
            _evict(changes, row, decision)
        case Shrink():
            _shrink(changes, row, decision)
        case Scale():
            _scale(changes, row, decision)
        case Offload():
            weights.move(changes, row, decision)
        case Wait():
            raise ValueError(f"{decision} changes nothing of a workload")
        case _:
            assert_never(decision)


def tell(changes: Changes, row: Waiting, wait: Wait) -> None:
    """Say why a workload waits. The same reason with other numbers is shown, but is no news."""
    changes.touched[wait.workload] = row
    if row.reason != wait.reason:
        changes.note(row, "Waiting", reason=str(wait.reason), message=wait.message, data=dict(wait.numbers))


def _become(changes: Changes, row: State, decision: Place | Evict | Shrink) -> Phase:
    """Set what the decision makes of a workload (scheduler/model/applied.py); the phase it comes to is still to be."""
    fields = becomes(row, decision, changes.at)
    to: Phase = fields.pop("phase", row.phase)
    named = {_COLUMNS.get(name, name): value for name, value in fields.items()}
    changes.change(row, **{name: list(v) if isinstance(v, tuple) else v for name, v in named.items()})
    return to


def _place(changes: Changes, row: State, decision: Place) -> None:
    ranks = [worker.rank for worker in decision.workers]
    to = _become(changes, row, decision)
    seats = [[w.rank, w.node, list(w.gpus)] for w in decision.workers]
    lenders = sorted({w.lender for w in decision.workers if w.lender})
    asleep = [w.rank for w in decision.workers if w.asleep_at is not None]
    data = as_data(
        workers=seats, after=list(decision.after), attempt=row.attempt, terms=dict(decision.terms), lenders=lenders,
        asleep=asleep,
    )  # fmt: skip
    if to != row.phase:
        changes.move(row, to, message=_on_lent(decision), data=data)
    else:
        changes.bump(row)
        changes.note(row, "Placed", data=data)
    there = [seat for seat in changes.live(row) if seat.state != LEAVING]
    revisions = canaries.next_revisions(row, there, len(decision.workers))
    changes.place(row, decision.workers, reserve=bool(decision.after), revisions=revisions)
    if not decision.after:
        changes.act("start", row, ranks)


def _on_lent(decision: Place) -> str:
    """What a gang is told that starts on GPUs which services' sleeping replicas lend; else nothing."""
    names = sorted({worker.lender for worker in decision.workers if worker.lender})
    if not names:
        return ""
    lent = counted(sum(bool(worker.lender) for worker in decision.workers), "GPU")
    what = f"{lent} that {' and '.join(mention(name) for name in names)} {'lends' if len(names) == 1 else 'lend'}"
    return f"Starts on {what}; when these are needed it gives workers back, or saves and is queued again."


def _evict(changes: Changes, row: State, decision: Evict) -> None:
    told: dict[str, Any] = {
        "kind": "Evicted",
        "reason": decision.reason.value,
        "message": decision.message,
        "data": as_data(by=decision.by, terms=dict(decision.terms)),
    }
    was_reserved = row.phase == Phase.RESERVED
    changes.move(row, _become(changes, row, decision), **told)
    if was_reserved:
        for seat in changes.live(row):
            changes.release(row, seat)
    else:
        vacate(changes, row, changes.live(row))


def vacate(changes: Changes, row: State, leavers: Sequence[Seat]) -> None:
    """Make workers leave: those with pods are stopped with their grace; observe gives up reserved places."""
    changes.leave(row, [seat for seat in leavers if seat.state == BOUND])
    for seat in leavers:
        if seat.state == RESERVED:
            seat.state, seat.is_changed = LEAVING, True


def _shrink(changes: Changes, row: State, decision: Shrink) -> None:
    _become(changes, row, decision)
    changes.bump(row)
    data = as_data(ranks=list(decision.ranks), by=decision.by, terms=dict(decision.terms))
    changes.note(row, "Shrunk", message=decision.message, data=data)
    vacate(changes, row, [seat for seat in changes.live(row) if leaves(decision, seat.rank)])


def _scale(changes: Changes, row: State, decision: Scale) -> None:
    """Another number of replicas: more are left to the scheduler, of less the decision names those that leave."""
    data = _noted(changes, row, decision)
    staying = [seat for seat in changes.live(row) if seat.state != LEAVING]
    told: dict[str, Any] = {"kind": "Scaled", "message": decision.message, "data": data}
    if decision.workers > len(staying) and row.phase != Phase.SCALING and may_move(row.phase, Phase.SCALING):
        changes.move(row, Phase.SCALING, **told)
    else:
        changes.bump(row)
        changes.note(row, told["kind"], message=told["message"], data=data)
    if decision.workers == 0:
        changes.keep_address(row, on=True)  # before its last replica leaves, or it would go with that one
    leavers = [seat for seat in staying if seat.rank in decision.leaving]
    if row.rollout is not None:  # a replica more than usual is meant to be there, and what is replaced leaves first
        order = sorted(staying, key=lambda seat: (seat.revision == row.revision, -seat.rank))
        if canaries.is_one(row.rollout):  # both keep what their part of the requests needs
            order = canaries.surplus(row, order)
        leavers = order[: max(0, len(staying) - decision.workers - row.surge)]
    vacate(changes, row, sorted(leavers, key=lambda seat: seat.rank))
    kept = [seat for seat in staying if seat not in leavers]
    if decision.awake is not None:
        _rotate(changes, row, kept, decision.asleep)
    ranks = [seat.rank for seat in kept if seat.state == BOUND]
    if decision.limit is not None and ranks:  # those that are yet to be placed start with it
        changes.act("limit", row, ranks)


def _noted(changes: Changes, row: State, decision: Scale) -> dict[str, Any]:
    """What is wanted from now on, in the row; what was and is, for the event."""
    data: dict[str, Any] = {"before": row.workers, "after": decision.workers}
    changes.change(row, workers=decision.workers)
    if decision.awake is not None:
        data |= {"awake_before": row.awake, "awake": decision.awake}
        changes.change(row, awake=decision.awake)
    if decision.limit is not None:
        data |= {"limit_before": row.share_limit, "limit": decision.limit}
        changes.change(row, share_limit=decision.limit)
    return data


def _rotate(changes: Changes, row: State, seats: Sequence[Seat], asleep: Sequence[int]) -> None:
    """Have these replicas be on standby from now on and all others serve; traffic is told only of those that change."""
    for verb, at, turned in (
        ("wake", None, [s for s in seats if s.asleep_at is not None and s.rank not in asleep]),
        ("sleep", changes.at, [s for s in seats if s.asleep_at is None and s.rank in asleep]),
    ):
        for seat in turned:
            seat.asleep_at, seat.is_changed = at, True
        # One with weights in host memory gets requests when they have returned (weights.py).
        told = [s for s in turned if s.state == BOUND and (verb == "sleep" or s.weights in ON_DEVICE)]
        if ranks := [seat.rank for seat in told]:
            changes.act(verb, row, ranks)


def as_data(**values: Any) -> dict[str, Any]:
    """Event data without what is empty."""
    return {key: value for key, value in values.items() if value not in (None, "", (), [], {})}
