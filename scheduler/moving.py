"""Places kept for workloads that consolidation moves: each round keeps them anew, until they have started again.

A moved workload leaves its old place, is queued and starts at the other one. In between its new place is held by no
row; every round keeps one for it on its plan, before anybody else is looked at, and gives it to it first of all.
"""

from dataclasses import replace

from scheduler.claim import quota_room
from scheduler.fit import flavors
from scheduler.gang import Goal, find_places
from scheduler.plan import Plan
from scheduler.snapshot import LATER, NOW
from scheduler.workload import Assignment, Phase, Workload, least


def keep_places(plan: Plan) -> list[Workload]:
    """Keep a place for each workload that is moving and still leaves; those that have left and are queued."""
    # Those that began to move first: so a world in which nothing else happened keeps the same places.
    moving = sorted(plan.ledger.moving.values(), key=lambda w: (max(w.preempted_at, default=0.0), w.seq))
    for workload in moving:
        if workload.phase is Phase.CHECKPOINTING:
            keep(plan, workload)
    return [w for w in moving if w.phase is Phase.QUEUED]


def keep(plan: Plan, leaver: Workload) -> bool:
    """Keep a place that is free now for a workload that leaves its own; whether there is one."""
    places = other_place(plan, leaver)
    if places is None:
        return False
    plan.keep(leaver, places)
    return True


def other_place(plan: Plan, leaver: Workload) -> tuple[Assignment, ...] | None:
    """Where a workload that leaves could start again at once: on what is free now, under the quota left then."""
    queued = replace(leaver, phase=Phase.QUEUED, placement=(), after=())
    for flavor in flavors(plan, queued):
        room = quota_room(plan, queued, flavor, LATER)
        goal = Goal(least(queued), min(queued.gang.count, room))
        if goal.most < goal.least:
            continue
        places = find_places(plan.inventory, queued, goal, plan.free[NOW], flavor)
        if places is not None:
            return places
    return None
