"""Places kept for workloads that consolidation moves: each round keeps them anew, until they have started again.

A moved workload leaves its old place, is queued and starts at the other one. In between its new place is held by no
row; every round keeps one for it on its plan, before any other workload is tried, and gives it to the moved one first.
"""

from dataclasses import replace

from scheduler.fit.claim import quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.model.snapshot import FUTURE_IDLE, IDLE
from scheduler.model.workload import Assignment, Phase, Workload, least
from scheduler.state.session import Session


def keep_places(session: Session) -> list[Workload]:
    """Keep a place for each workload that is moving and still leaves; those that have left and are queued."""
    # Those that began to move first: so a world in which nothing else happened keeps the same places.
    plan = session.plan
    moving = sorted(plan.ledger.moving.values(), key=lambda w: (max(w.preempted_at, default=0.0), w.seq))
    for workload in moving:
        if workload.phase is Phase.CHECKPOINTING:
            keep(session, workload)
    return [w for w in moving if w.phase is Phase.QUEUED]


def keep(session: Session, leaver: Workload) -> bool:
    """Keep a place that is free now for a workload that leaves its own; whether there is one."""
    plan = session.plan
    places = other_place(session, leaver)
    if places is None:
        return False
    plan.keep(leaver, places)
    return True


def other_place(session: Session, leaver: Workload) -> tuple[Assignment, ...] | None:
    """Where a workload that leaves could start again at once: on what is free now, under the quota left then."""
    plan = session.plan
    queued = replace(leaver, phase=Phase.QUEUED, placement=(), after=())
    free = plan.open_to(queued, plan.free[IDLE], IDLE)
    for flavor in session.flavors.of(queued):
        room = quota_room(session, queued, flavor, FUTURE_IDLE)
        goal = Goal(least(queued), min(queued.gang.count, room))
        if goal.most < goal.least:
            continue
        places = find_places(plan.inventory, queued, goal, free, flavor)
        if places is not None:
            return places
    return None
