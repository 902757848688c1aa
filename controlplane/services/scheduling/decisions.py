"""Decisions become rows; what each means is in controlplane/lifecycle (decisions.py, stale.py).

One transaction, fenced by the lease. What is stale is skipped, and the next round decides again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import transaction

from controlplane.domain.ids import uuids
from controlplane.lifecycle.decisions import apply, tell
from controlplane.lifecycle.stale import Known, Made, stale
from controlplane.lifecycle.state import LEAVING
from controlplane.models import Change, Node, Placement, PlacementState, Workload, bulk
from controlplane.runtime.wake import wake
from controlplane.services.scheduling import clusters, cycles, inforce, roundviews
from controlplane.services.scheduling.cycles import CycleInput
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import rows
from controlplane.services.workloads.rows import Told
from controlplane.services.workloads.transitions import Batch, LostUpdateError
from scheduler.model.cell import cell_of
from scheduler.model.decision import Place, Wait

M = TypeVar("M", bound=Made)
_REASON = ("reason", "message", "reason_at")


@dataclass(frozen=True, slots=True)
class Committed(Generic[M]):
    """What became of the decisions of a round, in their order."""

    applied: tuple[M, ...] = ()
    stale: tuple[M, ...] = ()
    cycle: int | None = None


def commit(
    decisions: Sequence[M],
    *,
    lease: HeldLease,
    cycle: CycleInput,
    is_followed: bool = False,
    view: roundviews.Packed | None = None,
) -> Committed[M]:
    """Write a round's decisions. Raises LeaseLost, with nothing written, if the lease is another's by now.

    is_followed: the caller's snapshot will follow what was applied (SnapshotKeeper.follow), so that the rows need not
    be read again. view: how a full round left the queue, kept for those who ask.
    """
    if not decisions and cycle.input is None:
        return Committed()
    with transaction.atomic():
        lease.check()
        number = cycles.record(cycle, epoch=lease.epoch)
        if view is not None:
            roundviews.keep(view, lease=lease)
        batch = Batch(cycle.at, f"loop:{cycle.loop}", number)
        waiting = uuids(d.workload for d in decisions if isinstance(d, Wait))
        batch.lock(uuids(_involved(decisions)), ahead=lambda: waiting)
        batch.pools, told = _pools(decisions, lease, cycle.cell), rows.told(waiting)
        old = stale(decisions, Known(batch.rows, told, batch.pools))
        applied = [d for i, d in enumerate(decisions) if i not in old]
        for decision in applied:
            if not isinstance(decision, Wait):
                apply(batch, batch.rows[decision.workload], decision)
        _tell(batch, told, [d for d in applied if isinstance(d, Wait)])
        batch.write(touch=not is_followed)
        if any(isinstance(d, Place) and d.after and not _is_awaiting(batch, d) for d in applied):
            # Those it waits for have left since the snapshot: no pod's end will tell observe to let it start.
            clusters.forget_cursor()
            wake("observe")
    return Committed(tuple(applied), tuple(decisions[i] for i in sorted(old)), number)


def _involved(decisions: Iterable[Made]) -> dict[str, None]:
    ids: dict[str, None] = {}
    for decision in decisions:
        if not isinstance(decision, Wait):
            ids[decision.workload] = None
        if isinstance(decision, Place):
            ids |= dict.fromkeys(decision.after)
    return ids


def _pools(decisions: Iterable[Made], lease: HeldLease, cell: str) -> dict[str, str]:
    """The pool of every node that a worker is placed on, but for nodes where a resize took room since the snapshot.

    Nodes that have come to another cell since then are left out, too.
    """
    names = {worker.node for d in decisions if isinstance(d, Place) for worker in d.workers}
    names -= _resized_since() if names else set()
    if not names:
        return {}
    cells = inforce.now().cells if lease.cells_number else ()
    found = bulk.select(Node, ("name", "pool__name", "rack"), {"name__among": sorted(names)})
    return {name: pool for name, pool, rack in found if not cells or cell_of(cells, pool, rack) == cell}


def _resized_since() -> set[str]:
    """The nodes of workloads that began to be resized after the snapshot was taken: their hints are still there."""
    resized = [uid for (uid,) in bulk.select(Workload, ("uid",), {"resize__isnull": False})]
    hinted = bulk.select(Change, ("workload",), {"workload__among": resized}) if resized else ()
    if not hinted:
        return set()
    live = {"workload_id__among": [uid for (uid,) in hinted], "state__not": PlacementState.RELEASED}
    return {node for (node,) in bulk.select(Placement, ("node",), live)}


def _is_awaiting(batch: Batch, decision: Place) -> bool:
    """Whether any of those that a placed workload waits for still has to leave."""
    rows = (batch.rows[uid] for uid in decision.after if uid in batch.rows)
    return any(seat.state == LEAVING for row in rows for seat in batch.live(row))


def _tell(batch: Batch, told: dict[str, Told], waits: Sequence[Wait]) -> None:
    """Write why workloads wait. Most decisions are of this kind, and they need not know the rest of a row."""
    values = []
    for wait in waits:
        row = told[wait.workload]
        values.append((str(wait.reason), wait.message, batch.at, row.uid, row.version))
        tell(batch, row, wait)
    if bulk.update(Workload, _REASON, ("uid", "version"), values) != len(values):
        raise LostUpdateError(", ".join(wait.workload for wait in waits))
