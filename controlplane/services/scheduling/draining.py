"""Draining a node: no new work comes to it, and what may move leaves with its grace."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from controlplane.lifecycle.draining import Fate, Resident, fate, leave_node
from controlplane.lifecycle.state import LEAVING, RELEASED, Seat
from controlplane.models import Placement, PlacementState
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.nodes import cordon
from controlplane.services.workloads import dependencies
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch


@dataclass(frozen=True, slots=True)
class Left:
    """One workload that was on the node, and what the drain did to it."""

    uid: str
    team: str
    name: str
    fate: Fate


def drain(*, name: str, actor: str) -> tuple[Left, ...]:
    """Cordon a node and have what may move leave it; tell what became of each workload there.

    Two transactions: the cordon first, so that no later round places anything there. Doing it again moves what has
    come between the two or could not leave before. Raises Refused 404.
    """
    cordon(name=name, on=True, actor=actor)
    left = _vacate(name, actor)
    wake("actuate")
    return left


@transaction.atomic
def _vacate(node: str, actor: str) -> tuple[Left, ...]:
    at = clock.now()
    there = Placement.objects.filter(node=node).exclude(state=PlacementState.RELEASED).order_by("workload_id")
    uids = list(there.values_list("workload_id", "workload__preemptible").distinct())
    batch = Batch(at, actor)
    batch.lock((uid for uid, _ in uids), ahead=lambda: dependencies.dependents([uid for uid, _ in uids]))
    left = []
    for uid, preemptible in uids:
        row = batch.rows.get(str(uid))
        if row is None:
            continue
        mine = [seat for seat in batch.live(row) if seat.node == node]
        if not mine:
            continue
        what = fate(_resident(batch, row, mine, preemptible))
        leave_node(batch, row, mine, what, node)
        left.append(Left(row.id, row.team, row.name, what))
    batch.write()
    moved = [one.uid for one in left if one.fate not in (Fate.STAYS, Fate.LEAVES)]
    if moved:
        data = {"node": node, "moved": moved, "stays": [one.uid for one in left if one.fate is Fate.STAYS]}
        events.record(kind="Drained", actor=actor, at=at, name=node[:63], data=data)
    return tuple(left)


def _resident(batch: Batch, row: Row, here: Sequence[Seat], preemptible: bool) -> Resident:
    staying = [seat for seat in batch.live(row) if seat.state not in (LEAVING, RELEASED)]
    mine = [seat for seat in here if seat.state not in (LEAVING, RELEASED)]
    return Resident(
        kind=row.kind,
        phase=row.phase,
        preemptible=preemptible,
        workers_min=row.workers_min,
        here=len(mine),
        elsewhere=sum(seat.rank >= row.role_members for seat in staying)
        - sum(s.rank >= row.role_members for s in mine),
        has_role_member_here=any(seat.rank < row.role_members for seat in mine),
        is_leaving=bool(row.intent),
    )
