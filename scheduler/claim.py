"""One claimant's places under its team's quota: the step that all actions end with."""

from collections.abc import Iterable
from dataclasses import replace

from scheduler.fit import flavors, least
from scheduler.gang import Goal, find_places
from scheduler.plan import Plan
from scheduler.quota import ENDLESS
from scheduler.reservation import quota_for, room_for
from scheduler.snapshot import COMPUTE, LATER, MEMORY, NOW, Flavor
from scheduler.workload import Assignment, Kind, Workload

Places = tuple[Assignment, ...]


def claim(
    plan: Plan,
    workload: Workload,
    when: int,
    victims: Iterable[str] = (),
    is_owed: bool = False,
    *,
    is_beside: bool = False,
) -> bool:
    """Place the workload if enough of it fits in that state; whether it did.

    is_owed: only within its team's nominal quota, as a reclaim may. is_beside: beside what reservations keep.
    """
    places = find(plan, workload, when, is_owed, is_beside=is_beside)
    if places is None:
        return False
    after = set(victims) | (waits_for(plan, workload, places, victims) if when == LATER else set())
    plan.place(workload, places, after)
    return True


def find(plan: Plan, workload: Workload, when: int, is_owed: bool = False, *, is_beside: bool = False) -> Places | None:
    """Places within quota, or None. A gang stays on one flavor; replicas of a service may use several.

    is_beside: beside what reservations keep.
    """
    free = room_for(plan, workload, when) if is_beside else plan.free[when]
    found: Places = ()
    wanted = Goal(least(workload), workload.missing)
    for flavor in flavors(plan, workload):
        room = quota_room(plan, workload, flavor, when, is_owed)
        if is_beside and flavor is not None:
            room = min(room, quota_for(plan, workload, flavor.pool))
        goal = Goal(wanted.least, min(wanted.most - len(found), room))
        if goal.most < goal.least:
            continue
        seen = replace(workload, placement=(*workload.placement, *found)) if found else workload
        places = find_places(plan.inventory, seen, goal, free, flavor, chooser=plan.chooser)
        if places is None:
            continue
        if workload.kind is not Kind.INFERENCE:
            return places
        found += places
        if len(found) == wanted.most:
            break
    return found or None


def quota_room(plan: Plan, workload: Workload, flavor: Flavor | None, when: int, is_owed: bool = False) -> int:
    """How many workers the team's quota in the flavor's pool still allows."""
    milli = workload.ask.milli
    if flavor is None or not milli:
        return workload.missing
    usage, team, pool = plan.usage, workload.team, flavor.pool
    states = (NOW, LATER) if when == NOW else (LATER,)
    room = min(usage.available(team, pool, state) for state in states)
    if when == NOW:
        room = min(room, _room_once_started(plan, team, pool))
    if is_owed or workload.id in plan.worn:
        room = min(room, usage.within_nominal(team, pool, LATER))
    if not workload.preemptible:
        room = min(room, *(usage.within_nominal(team, pool, state, firm_only=True) for state in states))
    return room // milli


def waits_for(plan: Plan, workload: Workload, places: Places, victims: Iterable[str]) -> set[str]:
    """Who has to leave before a claimant that was given LATER space may start there."""
    out: set[str] = set()
    now, index = plan.free[NOW], plan.inventory.index
    by_node: dict[str, set[int]] = {}
    for place in places:
        by_node.setdefault(place.node, set()).update(place.gpus)
    for name, devices in by_node.items():
        count = sum(p.node == name for p in places)
        ask, node = workload.ask, index[name]
        is_tight = bool(now.node[COMPUTE, node] < count * ask.cpu_milli or now.node[MEMORY, node] < count * ask.memory)
        for uid, leaver in plan.leaving.items():
            hold = [a for a in leaver.placement if a.leaving and a.node == name]
            if hold and (is_tight or any(devices.intersection(a.gpus) for a in hold)):
                out.add(uid)
    return out | _quota_leavers(plan, workload, places, out | set(victims))


def _quota_leavers(plan: Plan, workload: Workload, places: Places, already: set[str]) -> set[str]:
    """Those whose quota it takes over: the ones it waits for anyway, then its own team's, then others."""
    need: dict[str, int] = {}
    for place in places:
        pool = plan.usage.pool_of[place.node]
        need[pool] = need.get(pool, 0) + workload.ask.milli
    out: set[str] = set()
    for pool, amount in need.items() if workload.ask.milli else ():
        leavers = [w for w in plan.leaving.values() if _leaving_milli(plan, w, pool)]
        leavers.sort(key=lambda w: (w.id not in already, w.team != workload.team, w.seq, w.id))
        count = 0
        while count < len(leavers) and _room_without(plan, workload.team, pool, leavers, count) < amount:
            count += 1
        out.update(w.id for w in leavers[:count])
    return out


def _room_without(plan: Plan, team: str, pool: str, leavers: list[Workload], count: int) -> int:
    """Quota left once the first `count` leavers have left, whatever the reserved ones do meanwhile."""
    gone = [(w.team, -_leaving_milli(plan, w, pool)) for w in leavers[:count]]
    root_of = plan.usage.tree.root_of
    still = [(w.team, _leaving_milli(plan, w, pool)) for w in leavers[count:] if root_of[w.team] == root_of[team]]
    usage = plan.usage
    return min(
        usage.available_beside(team, pool, NOW, gone, is_alone=False),
        usage.available_beside(team, pool, LATER, still, is_alone=True),
    )


def _room_once_started(plan: Plan, team: str, pool: str) -> int:
    """Quota left should a reserved workload of the same root team start while others still leave."""
    if not plan.reserved or not plan.leaving:
        return ENDLESS
    root_of = plan.usage.tree.root_of
    root = root_of[team]
    waiters = [w.after for w in plan.reserved.values() if root_of[w.team] == root]
    leavers = [w for w in plan.leaving.values() if root_of[w.team] == root] if waiters else []
    still = [(w.team, _leaving_milli(plan, w, pool)) for w in leavers if any(w.id not in after for after in waiters)]
    return plan.usage.available_beside(team, pool, LATER, still, is_alone=True) if still else ENDLESS


def _leaving_milli(plan: Plan, workload: Workload, pool: str) -> int:
    where = plan.usage.pool_of
    return workload.ask.milli * sum(a.leaving and where.get(a.node) == pool for a in workload.placement)
