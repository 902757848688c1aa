"""What draining a node means for each workload there: one rule, for the page that asks first and the service that acts.

Trainings and notebooks that may be pre-empted leave with their grace and queue again, a service's replicas leave and
are replaced elsewhere, an elastic gang runs on with the rest. What may not be pre-empted stays until it ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.lifecycle import state
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.decisions import vacate
from controlplane.lifecycle.state import Seat, State
from scheduler.model.workload import ACTIVE, LEAVING, Kind, Phase

REASON = "Drained"


class Fate(StrEnum):
    """What happens to a workload that has workers on a drained node."""

    MOVES = "moves"  # all its workers leave with its grace, and it queues again with its age
    SHRINKS = "shrinks"  # an elastic gang goes on with the workers elsewhere
    REPLACED = "replaced"  # a service's replicas there leave; the next rounds place others
    GIVES_BACK = "gives back"  # only reserved: it goes back to the queue
    LEAVES = "leaves"  # is leaving already
    STAYS = "stays"  # may not be pre-empted


@dataclass(frozen=True, slots=True)
class Resident:
    """What the rule needs to know of a workload on a node. here, elsewhere: its workers that are not leaving."""

    kind: str
    phase: Phase
    preemptible: bool
    workers_min: int
    here: int
    elsewhere: int
    has_role_member_here: bool = False
    is_leaving: bool = False  # an intent: it is on its way out for another reason


def fate(resident: Resident) -> Fate:
    """What a drain does to it."""
    phase = Phase(resident.phase)
    if phase == Phase.RESERVED:
        return Fate.GIVES_BACK
    if phase in LEAVING or resident.is_leaving or not resident.here:
        return Fate.LEAVES
    if phase not in ACTIVE:
        return Fate.STAYS
    if resident.kind == Kind.INFERENCE:
        return Fate.REPLACED if resident.preemptible or resident.elsewhere else Fate.STAYS
    if not resident.preemptible:
        return Fate.STAYS
    runs_on = resident.elsewhere >= resident.workers_min and not resident.has_role_member_here
    if resident.kind == Kind.TRAINING and phase == Phase.RUNNING and runs_on and resident.elsewhere:
        return Fate.SHRINKS
    return Fate.MOVES


def leave_node(changes: Changes, row: State, here: Sequence[Seat], what: Fate, node: str) -> None:
    """Have what may leave a drained node leave it. `here`: its places there."""
    going = [seat for seat in here if seat.state != state.LEAVING]
    message = f"Node {node} is drained by {changes.actor}."
    match what:
        case Fate.GIVES_BACK:
            changes.change(row, reserved_after=[])
            changes.move(row, Phase.QUEUED, kind="Evicted", reason=REASON, message=message)
            for seat in changes.live(row):
                changes.release(row, seat)
        case Fate.MOVES:
            changes.move(row, Phase.CHECKPOINTING, kind="Evicted", reason=REASON, message=message)
            vacate(changes, row, changes.live(row))
        case Fate.SHRINKS:
            changes.bump(row, scaled_at=changes.at)
            told = {"ranks": [seat.rank for seat in going], "node": node}
            changes.note(row, "Shrunk", reason=REASON, message=message, data=told)
            vacate(changes, row, going)
        case Fate.REPLACED:
            changes.bump(row)
            told = {"ranks": [seat.rank for seat in going], "node": node}
            changes.note(row, "ReplicasMoved", reason=REASON, message=message, data=told)
            vacate(changes, row, going)
        case Fate.LEAVES | Fate.STAYS:
            pass
