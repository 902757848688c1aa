"""Places kept for workloads that move: each round keeps them anew, until they have started again.

A moved workload leaves its old place, is queued and starts at the other one. In between its new place is held by no
row; every round keeps one for it on its plan, before any other workload is tried, and gives it to the moved one first.
One that consolidation moves goes anywhere; one that moves to run faster (`goes_to`) needs places of that shape, and
may come back to devices that it has itself. It may leave for another number of members of its roles (`role_counts`).
"""

from dataclasses import replace

import numpy as np

from scheduler.fit.claim import quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.shaped import all_but, find_shaped, with_own
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Bools, Flavor
from scheduler.model.workload import Assignment, Phase, Workload, least
from scheduler.state.free import Free, free_of
from scheduler.state.session import Session

Places = tuple[Assignment, ...]


def keep_places(session: Session) -> list[Workload]:
    """Keep a place for each workload that is moving and still leaves; those that have left and are queued."""
    # Those that began to move first: so a world in which nothing else happened keeps the same places.
    plan = session.plan
    moving = sorted(plan.ledger.moving.values(), key=_began)
    for workload in moving:
        if workload.phase is Phase.CHECKPOINTING:
            keep(session, workload)
    return [w for w in moving if w.phase is Phase.QUEUED]


def keep(session: Session, leaver: Workload) -> bool:
    """Keep a place that is free now for a workload that leaves its own; whether there is one."""
    places = other_place(session, leaver)
    if places is None:
        return False
    session.plan.keep(leaver, places)
    return True


def start(session: Session, moved: Workload) -> bool:
    """Start one that has left to run faster on places of the shape that it left for; whether there are any still."""
    if not moved.goes_to:
        return False
    places = _shaped(session, moved)
    if places is not None:
        session.plan.place(moved, places)
    return places is not None


def other_place(session: Session, leaver: Workload) -> Places | None:
    """Where a workload that leaves could start again at once: on what is free now, under the quota left then."""
    plan = session.plan
    if leaver.goes_to:
        return _shaped(session, leaver)
    queued = _queued(leaver)
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


def wished(
    session: Session, gang: Workload, free: Free, flavor: Flavor | None, within: Bools | None = None
) -> Places | None:
    """Where it could run in the shape that it asks for, on nodes of one flavor, with so much free for it."""
    inventory = session.plan.inventory
    allowed = all_but(inventory, gang.off)
    if within is not None:
        allowed = allowed & within
    places = find_shaped(inventory, _queued(gang), gang.goes_to, free, flavor, allowed)
    return places if places is None or gang.phase is Phase.QUEUED else _as_held(gang, places)


def as_asked(workload: Workload) -> Workload:
    """With as many members of each role as it asks to start again with."""
    if not workload.role_counts:
        return workload
    pairs = zip(workload.roles, workload.role_counts, strict=True)
    return replace(workload, roles=tuple(replace(role, count=count) for role, count in pairs))


def _as_held(gang: Workload, places: Places) -> Places:
    """With ranks as its present roles count them: so what is kept for it is counted as what each member asks."""
    asked = as_asked(gang)
    if asked.roles == gang.roles:
        return places
    first = {role: rank for rank in reversed(range(gang.role_members)) for role in [gang.role_of(rank)[0]]}
    workers = gang.role_members - asked.role_members
    return tuple(
        replace(one, rank=one.rank + workers if one.rank >= asked.role_members else first[asked.role_of(one.rank)[0]])
        for one in places
    )


def _shaped(session: Session, leaver: Workload) -> Places | None:
    """The same on the first flavor that has room, under the quota that is left once it has left."""
    plan, queued = session.plan, _queued(leaver)
    free = plan.free[IDLE]
    if leaver.placement:  # its own is free for it then, but for what others were promised of that
        own, later = with_own(plan.inventory, free, leaver), plan.free[FUTURE_IDLE]
        free = free_of(plan.inventory, np.minimum(own.gpu, later.gpu), np.minimum(own.node, later.node))
    for flavor in session.flavors.of(queued):
        if quota_room(session, queued, flavor, FUTURE_IDLE) >= sum(leaver.goes_to):
            places = wished(session, leaver, free, flavor)
            if places is not None:
                return places
    return None


def _queued(leaver: Workload) -> Workload:
    return replace(as_asked(leaver), phase=Phase.QUEUED, placement=(), after=())


def _began(workload: Workload) -> tuple[float, int]:
    return max(workload.scaled_at or 0.0, *workload.preempted_at, 0.0), workload.seq
