"""What each decision of a round means: `Snapshot.after`, and the commands that the cluster gets for it."""

from collections.abc import Sequence
from typing import Any, assert_never

from autoscaler.decision import Scale
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.stale import Made, Waiting
from controlplane.lifecycle.state import BOUND, LEAVING, RESERVED, Seat, State
from scheduler.decision import Evict, EvictReason, Place, Shrink, Wait
from scheduler.workload import ACTIVE, Phase, may_move


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
        case Wait():
            raise ValueError(f"{decision} changes nothing of a workload")
        case _:
            assert_never(decision)


def tell(changes: Changes, row: Waiting, wait: Wait) -> None:
    """Say why a workload waits. The same reason with other numbers is shown, but is no news."""
    changes.touched[wait.workload] = row
    if row.reason != wait.reason:
        changes.note(row, "Waiting", reason=str(wait.reason), message=wait.message, data=dict(wait.numbers))


def _place(changes: Changes, row: State, decision: Place) -> None:
    fresh = row.phase not in ACTIVE
    ranks = [worker.rank for worker in decision.workers]
    workers = [(w.rank, w.node, w.gpus) for w in decision.workers]
    changes.change(
        row,
        attempt=row.attempt + fresh,
        next_rank=max(0 if fresh else row.next_rank, *(rank + 1 for rank in ranks)),
        reserved_after=[*(() if fresh else row.reserved_after), *decision.after],
        reason="",
        message="",
        scaled_at=None if fresh else changes.at,
        finishing=False,
        moving=False,
    )
    seats = [[rank, node, list(gpus)] for rank, node, gpus in workers]
    data = as_data(workers=seats, after=list(decision.after), attempt=row.attempt, terms=dict(decision.terms))
    if fresh:
        changes.move(row, Phase.RESERVED if decision.after else Phase.ADMITTED, data=data)
    elif row.phase != Phase.SCALING:
        changes.move(row, Phase.SCALING, data=data)
    else:
        changes.bump(row)
        changes.note(row, "Placed", data=data)
    changes.place(row, workers, reserve=bool(decision.after))
    if not decision.after:
        changes.act("start", row, ranks)


def _evict(changes: Changes, row: State, decision: Evict) -> None:
    told: dict[str, Any] = {
        "kind": "Evicted",
        "reason": decision.reason.value,
        "message": decision.message,
        "data": as_data(by=decision.by, terms=dict(decision.terms)),
    }
    if row.phase == Phase.RESERVED:
        changes.change(row, reserved_after=[])
        changes.move(row, Phase.QUEUED, **told)
        for seat in changes.live(row):
            changes.release(row, seat)
        return
    changes.change(
        row,
        preempted_at=[*row.preempted_at, changes.at],
        preempted_by=[*row.preempted_by, decision.by],
        moving=decision.reason is EvictReason.CONSOLIDATED,
    )
    changes.move(row, Phase.CHECKPOINTING, **told)
    vacate(changes, row, changes.live(row))


def vacate(changes: Changes, row: State, leavers: Sequence[Seat]) -> None:
    """Make workers leave: those with pods are stopped with their grace; observe gives up reserved places."""
    changes.leave(row, [seat for seat in leavers if seat.state == BOUND])
    for seat in leavers:
        if seat.state == RESERVED:
            seat.state, seat.is_changed = LEAVING, True


def _shrink(changes: Changes, row: State, decision: Shrink) -> None:
    changes.bump(row, scaled_at=changes.at)
    data = as_data(ranks=list(decision.ranks), by=decision.by)
    changes.note(row, "Shrunk", message=decision.message, data=data)
    vacate(changes, row, [seat for seat in changes.live(row) if seat.rank in decision.ranks])


def _scale(changes: Changes, row: State, decision: Scale) -> None:
    """Another number of replicas: more are left to the scheduler, less end the newest ones."""
    data = {"before": row.workers, "after": decision.workers}
    staying = [seat for seat in changes.live(row) if seat.state != LEAVING]
    changes.change(row, workers=decision.workers)
    told: dict[str, Any] = {"kind": "Scaled", "message": decision.message, "data": data}
    if decision.workers > len(staying) and row.phase != Phase.SCALING and may_move(row.phase, Phase.SCALING):
        changes.move(row, Phase.SCALING, **told)
    else:
        changes.bump(row)
        changes.note(row, told["kind"], message=told["message"], data=data)
    vacate(changes, row, sorted(staying, key=lambda seat: seat.rank)[decision.workers :])


def as_data(**values: Any) -> dict[str, Any]:
    """Event data without what is empty."""
    return {key: value for key, value in values.items() if value not in (None, "", (), [], {})}
