"""Grow: give an elastic gang that runs with fewer workers than it wants some of what no other workload waits for."""

from collections.abc import Sequence

from scheduler.fit.capacity import Refusal
from scheduler.fit.claim import quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.locality import domain_of_node
from scheduler.model.decision import Reason
from scheduler.model.snapshot import IDLE, Bools, Flavor
from scheduler.model.workload import Assignment, Kind, Level, Phase, Workload
from scheduler.state.plan import Plan
from scheduler.state.session import Session

# What waits for one of these could use the room, whatever its team.
FOR_ROOM = frozenset(
    {
        Reason.FAIR_SHARE_EXCEEDED,
        Reason.RESERVED_FOR_LARGER_JOB,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.GANG_INCOMPLETE,
        Reason.FRAGMENTED,
        Reason.WAITING_FOR_CAPACITY,
    }
)
OWN = frozenset({Reason.NON_PREEMPTIBLE_OVER_QUOTA, Reason.WAITING_FOR_QUOTA, Reason.OVER_LIMIT})


def grow(session: Session, refused: Sequence[tuple[Workload, Refusal]]) -> None:
    """Let elastic gangs grow, in order of submission, unless a claimant was refused the room or the quota."""
    plan = session.plan
    if any(refusal.reason in FOR_ROOM for _, refusal in refused):
        return
    root_of = plan.usage.tree.root_of
    busy = {root_of.get(workload.team) for workload, refusal in refused if refusal.reason in OWN}
    for gang in sorted(_growable(session), key=lambda w: w.seq):
        if root_of.get(gang.team) not in {*busy, None}:
            _grow_one(session, gang)


def _growable(session: Session) -> list[Workload]:
    """Elastic gangs that run below their wanted count and have rested since they started or changed."""
    plan, settings = session.plan, session.settings
    found = [w for w in plan.holding if _wants_more(w) and plan.workload(w.id) is w]
    rested = plan.snapshot.at - settings.settle_seconds
    return [w for w in found if max(w.started_at or 0.0, w.scaled_at or 0.0) <= rested]


def _grow_one(session: Session, gang: Workload) -> bool:
    """Place as many of its missing workers as fit now, on its GPU model and as close as it requires; whether any."""
    plan = session.plan
    flavor, near = _flavor(plan, gang), _near(plan, gang)
    if near is None or (flavor is None and gang.ask.milli):
        return False
    room = quota_room(session, gang, flavor, IDLE)
    if room < 1:
        return False
    free = plan.open_to(gang, plan.free[IDLE], IDLE)
    places = find_places(plan.inventory, gang, Goal(1, min(gang.missing, room)), free, flavor, near)
    if places is None:
        return False
    plan.place(gang, places)
    return True


def _wants_more(gang: Workload) -> bool:
    if gang.kind is not Kind.TRAINING or gang.phase is not Phase.RUNNING or gang.started_at is None:
        return False
    if gang.after or gang.finishing:
        return False
    return gang.gang.min < gang.gang.count and gang.missing > 0 and not any(a.leaving for a in gang.placement)


def _flavor(plan: Plan, gang: Workload) -> Flavor | None:
    """The flavor that its workers run on; None without GPUs, or if the first one's node is gone."""
    at = plan.inventory.index.get(_first_worker(gang).node)
    if at is None:
        return None
    return next((f for f in plan.inventory.flavors if f.nodes[at]), None) if gang.ask.milli else None


def _first_worker(gang: Workload) -> Assignment:
    return next((a for a in gang.placement if a.rank >= gang.role_members), gang.placement[0])


def _near(plan: Plan, gang: Workload) -> Bools | None:
    """The nodes where a further worker is as close as the gang requires. Shape [N]; None if that cannot be said."""
    inventory, level = plan.inventory, gang.topology.require
    at = inventory.index.get(_first_worker(gang).node)
    if at is None or level == Level.NVLINK:
        return None
    domains = domain_of_node(inventory, Level.CLUSTER if level is None else level)
    same: Bools = domains == domains[at]
    return same
