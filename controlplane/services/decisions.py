"""Decisions become rows: the database's interpreter of what `Snapshot.after` means.

One transaction, fenced by the lease. A decision whose workload has another version by now is stale: it is skipped with
all that belongs to it (victims without their claimant, a claimant without its victims), and the next round decides
again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import transaction

from controlplane.models import Node, Workload, bulk
from controlplane.services import clusters, cycles, rows
from controlplane.services.cycles import CycleInput
from controlplane.services.leases import HeldLease
from controlplane.services.rows import BOUND, RESERVED, Row, Seat, Told, as_data, uuids
from controlplane.services.rows import LEAVING as LEAVING_SEAT
from controlplane.services.transitions import Batch, LostUpdateError
from controlplane.wake import wake
from scheduler.decision import Evict, EvictReason, Place, Shrink, Wait
from scheduler.workload import ACTIVE, LEAVING, Phase, may_move

_REASON = ("reason", "message", "reason_at")
_POOL = '(SELECT "p"."name" FROM "controlplane_nodepool" "p" WHERE "p"."id" = "controlplane_node"."pool_id")'


class Scale(Protocol):
    """The autoscaler's decision: how many workers a service wants from now on."""

    workload: str
    version: int
    workers: int
    message: str


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of the decisions of a round, in their order."""

    applied: tuple[Any, ...] = ()
    stale: tuple[Any, ...] = ()
    cycle: int | None = None


def commit(decisions: Sequence[Any], *, lease: HeldLease, cycle: CycleInput, is_followed: bool = False) -> Committed:
    """Write a round's decisions. Raises LeaseLost, with nothing written, if the lease is another's by now.

    is_followed: the caller's snapshot will follow what was applied (SnapshotKeeper.follow), so that the rows need not
    be read again.
    """
    if not decisions and cycle.input is None:
        return Committed()
    with transaction.atomic():
        lease.check()
        number = cycles.record(cycle, epoch=lease.epoch)
        batch = Batch(cycle.at, f"loop:{cycle.loop}", number)
        waiting = uuids(d.workload for d in decisions if isinstance(d, Wait))
        batch.lock(uuids(_involved(decisions)), ahead=lambda: waiting)
        pools, told = _pools(decisions), rows.told(waiting)
        stale = _stale(decisions, batch, told, pools)
        applied = [d for i, d in enumerate(decisions) if i not in stale]
        for decision in applied:
            if not isinstance(decision, Wait):
                _apply(batch, batch.rows[decision.workload], decision, pools)
        _tell(batch, told, [d for d in applied if isinstance(d, Wait)])
        batch.write(touch=not is_followed)
        if any(isinstance(d, Place) and d.after and not _is_awaiting(batch, d) for d in applied):
            # Those it waits for have left since the snapshot: no pod's end will tell observe to let it start.
            clusters.forget_cursor()
            wake("observe")
    return Committed(tuple(applied), tuple(decisions[i] for i in sorted(stale)), number)


def _involved(decisions: Iterable[Any]) -> dict[str, None]:
    ids: dict[str, None] = {}
    for decision in decisions:
        if not isinstance(decision, Wait):
            ids[decision.workload] = None
        if isinstance(decision, Place):
            ids |= dict.fromkeys(decision.after)
    return ids


def _pools(decisions: Iterable[Any]) -> dict[str, str]:
    """The pool of every node that a worker is placed on."""
    names = {worker.node for d in decisions if isinstance(d, Place) for worker in d.workers}
    if not names:
        return {}
    named, keys = bulk.among(Node, "name", sorted(names))
    return dict(bulk.select(Node, ("name",), f"WHERE {named}", keys, extra=(_POOL,)))


def _is_awaiting(batch: Batch, decision: Place) -> bool:
    """Whether any of those that a placed workload waits for still has to leave."""
    rows = (batch.rows[uid] for uid in decision.after if uid in batch.rows)
    return any(seat.state == LEAVING_SEAT for row in rows for seat in batch.live(row))


# --- what is stale ----------------------------------------------------------------------------


def _stale(decisions: Sequence[Any], batch: Batch, told: dict[str, Told], pools: dict[str, str]) -> set[int]:
    """Positions of the decisions that must not be applied."""
    stale = {i for i, d in enumerate(decisions) if not _holds(d, batch, told, pools)}
    leaving = {d.workload: i for i, d in enumerate(decisions) if isinstance(d, Evict | Shrink)}
    placed = {d.workload: i for i, d in enumerate(decisions) if isinstance(d, Place)}
    while True:
        more = {i for i, d in enumerate(decisions) if i not in stale and _falls_with(d, stale, leaving, placed)}
        if not more:
            return stale
        stale |= more


def _falls_with(decision: Any, stale: set[int], leaving: dict[str, int], placed: dict[str, int]) -> bool:
    """Whether a decision makes no sense without one that is stale."""
    if isinstance(decision, Place):
        return any(leaving.get(uid) in stale for uid in decision.after)
    return isinstance(decision, Evict | Shrink) and placed.get(decision.by) in stale


def _holds(decision: Any, batch: Batch, told: dict[str, Told], pools: dict[str, str]) -> bool:
    if isinstance(decision, Wait):
        known = told.get(decision.workload)
        return known is not None and known.version == decision.version and known.phase not in LEAVING
    row = batch.rows.get(decision.workload)
    if row is None or row.seen != decision.version:
        return False
    match decision:
        case Place():
            return _may_place(row, decision, pools)
        case Evict():
            return row.phase == Phase.RESERVED or may_move(row.phase, Phase.CHECKPOINTING)
        case Shrink():
            return row.phase in ACTIVE
        case _:
            return row.phase in ACTIVE and row.is_service


def _may_place(row: Row, decision: Place, pools: dict[str, str]) -> bool:
    if any(worker.node not in pools for worker in decision.workers):
        return False
    if row.phase in ACTIVE:
        return not row.intent
    return may_move(row.phase, Phase.RESERVED)


# --- what each means --------------------------------------------------------------------------


def _apply(batch: Batch, row: Row, decision: Place | Evict | Shrink | Scale, pools: dict[str, str]) -> None:
    match decision:
        case Place():
            _place(batch, row, decision, pools)
        case Evict():
            _evict(batch, row, decision)
        case Shrink():
            _shrink(batch, row, decision)
        case _:
            _scale(batch, row, decision)


def _place(batch: Batch, row: Row, decision: Place, pools: dict[str, str]) -> None:
    fresh = row.phase not in ACTIVE
    ranks = [worker.rank for worker in decision.workers]
    workers = [(w.rank, w.node, pools[w.node], w.gpus) for w in decision.workers]
    batch.change(
        row,
        attempt=row.attempt + fresh,
        next_rank=max(0 if fresh else row.next_rank, *(rank + 1 for rank in ranks)),
        reserved_after=[*(() if fresh else row.reserved_after), *decision.after],
        reason="",
        message="",
        scaled_at=None if fresh else batch.at,
        finishing=False,
        moving=False,
    )
    seats = [[rank, node, list(gpus)] for rank, node, _, gpus in workers]
    data = as_data(workers=seats, after=list(decision.after), attempt=row.attempt, terms=dict(decision.terms))
    if fresh:
        batch.move(row, Phase.RESERVED if decision.after else Phase.ADMITTED, data=data)
    elif row.phase != Phase.SCALING:
        batch.move(row, Phase.SCALING, data=data)
    else:
        batch.bump(row)
        batch.note(row, "Placed", data=data)
    batch.place(row, [(*worker, row.milli_of(worker[0])) for worker in workers], reserve=bool(decision.after))
    if not decision.after:
        batch.act("start", row, ranks)


def _evict(batch: Batch, row: Row, decision: Evict) -> None:
    told: dict[str, Any] = {
        "kind": "Evicted",
        "reason": decision.reason.value,
        "message": decision.message,
        "data": as_data(by=decision.by, terms=dict(decision.terms)),
    }
    if row.phase == Phase.RESERVED:
        batch.change(row, reserved_after=[])
        batch.move(row, Phase.QUEUED, **told)
        for seat in batch.live(row):
            batch.release(row, seat)
        return
    batch.change(
        row,
        preempted_at=[*row.preempted_at, batch.at],
        preempted_by=[*row.preempted_by, decision.by],
        moving=decision.reason is EvictReason.CONSOLIDATED,
    )
    batch.move(row, Phase.CHECKPOINTING, **told)
    vacate(batch, row, batch.live(row))


def vacate(batch: Batch, row: Row, leavers: Sequence[Seat]) -> None:
    """Make workers leave: those with pods are stopped with their grace; observe gives up reserved places."""
    batch.leave(row, [seat for seat in leavers if seat.state == BOUND])
    for seat in leavers:
        if seat.state == RESERVED:
            seat.state, seat.is_changed = LEAVING_SEAT, True


def _shrink(batch: Batch, row: Row, decision: Shrink) -> None:
    batch.bump(row, scaled_at=batch.at)
    data = as_data(ranks=list(decision.ranks), by=decision.by)
    batch.note(row, "Shrunk", message=decision.message, data=data)
    vacate(batch, row, [seat for seat in batch.live(row) if seat.rank in decision.ranks])


def _tell(batch: Batch, told: dict[str, Told], waits: Sequence[Wait]) -> None:
    """Write why workloads wait. Most decisions are of this kind, and they need not know the rest of a row."""
    values = []
    for wait in waits:
        row, reason = told[wait.workload], str(wait.reason)
        values.append((reason, wait.message, batch.at, row.uid, row.version))
        batch.touch(row.uid)
        if row.reason != reason:  # the same reason with other numbers is shown, but is no news
            batch.note(row, "Waiting", reason=reason, message=wait.message, data=dict(wait.numbers))
    if bulk.update(Workload, _REASON, ("uid", "version"), values) != len(values):
        raise LostUpdateError(", ".join(wait.workload for wait in waits))


def _scale(batch: Batch, row: Row, decision: Scale) -> None:
    """Another number of replicas: more are left to the scheduler, less end the newest ones."""
    data = {"before": row.workers, "after": decision.workers}
    staying = [seat for seat in batch.live(row) if seat.state != LEAVING_SEAT]
    batch.change(row, workers=decision.workers)
    told: dict[str, Any] = {"kind": "Scaled", "message": decision.message, "data": data}
    if decision.workers > len(staying) and row.phase != Phase.SCALING and may_move(row.phase, Phase.SCALING):
        batch.move(row, Phase.SCALING, **told)
    else:
        batch.bump(row)
        batch.note(row, told["kind"], message=told["message"], data=data)
    vacate(batch, row, sorted(staying, key=lambda seat: seat.rank)[decision.workers :])
