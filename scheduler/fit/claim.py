"""One claimant's places under its team's quota: the step that all actions end with."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.fit.comparison import Option, best_places
from scheduler.fit.gang import Goal, has_places
from scheduler.fit.spread import spread_places
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, IDLE, MEMORY, Flavor
from scheduler.model.workload import Assignment, Kind, Phase, Workload, least
from scheduler.placement.chooser import Chooser
from scheduler.quota.tree import ENDLESS, Changes
from scheduler.state.free import Free
from scheduler.state.plan import Plan
from scheduler.state.session import Session

Places = tuple[Assignment, ...]


def claim(
    session: Session,
    workload: Workload,
    when: int,
    victims: Iterable[str] = (),
    is_owed: bool = False,
    *,
    is_constrained: bool = False,
) -> bool:
    """Place the workload if enough of it fits in that state; whether it did.

    is_owed: only within its team's nominal quota, as a reclaim may. is_constrained: within the backfill constraints.
    """
    plan = session.plan
    places = find(session, workload, when, is_owed, is_constrained=is_constrained)
    if places is None:
        return False
    after = set(victims) | (waits_for(plan, workload, places, victims) if when == FUTURE_IDLE else set())
    plan.place(workload, places, after)
    return True


def fits(session: Session, workload: Workload, when: int, is_owed: bool = False) -> bool:
    """Whether `find` has an answer: cheaper, as any places will do."""
    if session.shortcuts.direct:
        return fits_in(session, workload, when, is_owed, session.plan.free[when])
    return _find(session, workload, when, is_owed, is_constrained=False, chooser=None) is not None


def fits_in(session: Session, workload: Workload, when: int, is_owed: bool, free: Free) -> bool:
    """The same by counting, beside what is `free`: the first flavor with places is enough."""
    plan, few = session.plan, least(workload)
    is_open = False
    for flavor in session.flavors.of(workload):
        most = min(workload.missing, quota_room(session, workload, flavor, when, is_owed))
        if most < few:
            continue
        if not is_open:
            free, is_open = plan.open_to(workload, free, when), True
        if has_places(plan.inventory, workload, Goal(few, most), free, flavor):
            return True
    return False


def may_hold(session: Session, workload: Workload) -> bool:
    """Whether quota allows the least of it in any pool once all that leaves has left: else `find` has no answer."""
    few = least(workload)
    return any(quota_room(session, workload, flavor, FUTURE_IDLE) >= few for flavor in session.flavors.of(workload))


def find(
    session: Session, workload: Workload, when: int, is_owed: bool = False, *, is_constrained: bool = False
) -> Places | None:
    """Places within quota, or None. A gang stays on one flavor; replicas of a service may use several.

    Flavors that its team's own quota covers are compared before those where it would borrow.
    is_constrained: within the backfill constraints.
    """
    return _find(session, workload, when, is_owed, is_constrained=is_constrained, chooser=session.chooser)


def _find(
    session: Session, workload: Workload, when: int, is_owed: bool, *, is_constrained: bool, chooser: Chooser | None
) -> Places | None:
    plan = session.plan
    found: Places = ()
    wanted = Goal(least(workload), workload.missing)
    flavors = session.flavors
    tiers = flavors.tiers(workload) if chooser is not None else [[flavor] for flavor in flavors.of(workload)]
    for tier in tiers:
        goal = Goal(wanted.least, wanted.most - len(found))
        rooms = (
            (flavor, _room(session, workload, flavor, when, is_owed, is_constrained=is_constrained)) for flavor in tier
        )
        options = [Option(flavor, Goal(goal.least, min(goal.most, room))) for flavor, room in rooms]
        options = [option for option in options if option.goal.most >= goal.least]
        if not options:
            continue
        free = session.constraints.room_for(workload, when) if is_constrained else plan.free[when]
        free = plan.open_to(workload, free, when)
        seen = replace(workload, placement=(*workload.placement, *found)) if found else workload
        is_spread = workload.spread and workload.uses_gpus and not workload.ask.labels.affinity
        choose = spread_places if is_spread else best_places
        places = choose(plan.inventory, seen, goal, options, free, chooser)
        if places is None:
            continue
        if workload.kind is not Kind.INFERENCE or workload.ask.labels.affinity:
            return places
        found += places
        if len(found) == wanted.most:
            break
    return found or None


def _room(
    session: Session, workload: Workload, flavor: Flavor | None, when: int, is_owed: bool, *, is_constrained: bool
) -> int:
    """How many workers quota allows in the flavor's pool, and reservations too if it is constrained by them."""
    room = quota_room(session, workload, flavor, when, is_owed)
    if is_constrained and flavor is not None and room >= least(workload):
        room = min(room, session.constraints.quota_for(workload, flavor.pool))
    return room


def quota_room(session: Session, workload: Workload, flavor: Flavor | None, when: int, is_owed: bool = False) -> int:
    """How many workers the team's quota in the flavor's pool still allows."""
    if flavor is None or not workload.uses_gpus:
        return workload.missing
    is_owed = is_owed or workload.id in session.preemption_limited
    return workload.workers_within(_milli_room(session, workload, flavor.pool, when, is_owed))


def _milli_room(session: Session, workload: Workload, pool: str, when: int, is_owed: bool) -> int:
    """What quota allows, remembered until what is held changes: each step that tries a claimant asks."""
    plan = session.plan
    usage, team = plan.usage, workload.team
    amount = workload.need_milli(workload.missing) if when == IDLE else 0

    def find_room() -> int:
        states = (IDLE, FUTURE_IDLE) if when == IDLE else (FUTURE_IDLE,)
        room = min(usage.available(team, pool, state) for state in states)
        if when == IDLE:
            room = min(room, _room_once_started(plan, team, pool, amount))
        if is_owed:
            room = min(room, usage.within_nominal(team, pool, FUTURE_IDLE))
        if not workload.preemptible:
            room = min(room, *(usage.within_nominal(team, pool, state, firm_only=True) for state in states))
        return room

    return session.rooms.of((team, pool, when, is_owed, workload.preemptible, amount), find_room)


def waits_for(plan: Plan, workload: Workload, places: Places, victims: Iterable[str]) -> set[str]:
    """The workloads that have to leave before a claimant that was given FUTURE_IDLE space may start there."""
    out: set[str] = set()
    now, index = plan.free[IDLE], plan.inventory.index
    by_node: dict[str, set[int]] = {}
    for place in places:
        by_node.setdefault(place.node, set()).update(place.gpus)
    for name, devices in by_node.items():
        asks, node = [workload.ask_of(p.rank) for p in places if p.node == name], index[name]
        cores, memory = sum(ask.cpu_milli for ask in asks), sum(ask.memory for ask in asks)
        is_tight = bool(now.node[COMPUTE, node] < cores or now.node[MEMORY, node] < memory)
        for uid, leaver in plan.leaving_on(name).items():
            hold = [a for a in leaver.placement if a.leaving and a.node == name]
            if hold and (is_tight or any(devices.intersection(a.gpus) for a in hold)):
                out.add(uid)
    return out | _quota_leavers(plan, workload, places, out | set(victims))


def _quota_leavers(plan: Plan, workload: Workload, places: Places, already: set[str]) -> set[str]:
    """Those whose quota it takes over: the ones it waits for anyway, then its own team's, then others."""
    need: dict[str, int] = {}
    for place in places:
        pool = plan.usage.pool_of[place.node]
        need[pool] = need.get(pool, 0) + workload.milli_of(place)
    out: set[str] = set()
    for pool, amount in ((pool, amount) for pool, amount in need.items() if amount):
        leavers = [w for w in plan.leaving.values() if _leaving_milli(plan, w, pool)]
        leavers.sort(key=lambda w: (w.id not in already, w.team != workload.team, w.seq, w.id))
        count = 0
        while count < len(leavers) and _room_without(plan, workload.team, pool, leavers, count, amount) < amount:
            count += 1
        out.update(w.id for w in leavers[:count])
    return out


def _room_without(plan: Plan, team: str, pool: str, leavers: list[Workload], count: int, amount: int) -> int:
    """Quota left once the first `count` leavers have left, whatever the reserved ones do meanwhile."""
    gone = [(w.team, -_leaving_milli(plan, w, pool)) for w in leavers[:count]]
    room = plan.usage.available_assuming(team, pool, IDLE, gone)
    return min(room, _room_meanwhile(plan, team, pool, leavers[count:], amount)) if room >= amount else room


def _room_meanwhile(plan: Plan, team: str, pool: str, leavers: list[Workload], amount: int) -> int:
    """Quota left whichever reserved workloads start first while others of these still leave.

    Where every team lends all it owns, only its own root's borrowing limits can be in the way.
    """
    usage = plan.usage
    if pool not in usage.tree.lends_less:
        return _below_limits_meanwhile(plan, team, pool, leavers)
    room = usage.available_assuming(team, pool, FUTURE_IDLE, [(w.team, _leaving_milli(plan, w, pool)) for w in leavers])
    if room >= amount or not leavers:
        return room  # even if all reserved ones could start beside all that leaves
    orders = _in_all_orders(plan, pool, leavers, list(plan.reserved.values()))
    return min(usage.available_assuming(team, pool, FUTURE_IDLE, held) for held in orders)


def _below_limits_meanwhile(plan: Plan, team: str, pool: str, leavers: list[Workload]) -> int:
    usage, root_of = plan.usage, plan.usage.tree.root_of
    if usage.below_limits(team, pool, FUTURE_IDLE, []) == ENDLESS:
        return ENDLESS
    theirs = [w for w in leavers if root_of[w.team] == root_of[team]]
    reserved = [w for w in plan.reserved.values() if root_of[w.team] == root_of[team]]
    return min(
        usage.below_limits(team, pool, FUTURE_IDLE, held) for held in _in_all_orders(plan, pool, theirs, reserved)
    )


def _in_all_orders(plan: Plan, pool: str, leavers: list[Workload], reserved: list[Workload]) -> Iterator[Changes]:
    """How what is held differs from FUTURE_IDLE while some of these still leave, in each order they may leave in."""
    leaving = [(w, _leaving_milli(plan, w, pool)) for w in leavers]
    waiting = [(w, _reserved_milli(plan, w, pool)) for w in reserved]
    for after in sorted({(), *(w.after for w in reserved)}):
        yield _while_still([(w, milli) for w, milli in leaving if w.id not in after], waiting)


def _room_once_started(plan: Plan, team: str, pool: str, amount: int) -> int:
    """Quota left whichever reserved workload starts first while others still leave."""
    if not plan.reserved or not plan.leaving:
        return ENDLESS
    return _room_meanwhile(plan, team, pool, list(plan.leaving.values()), amount)


def _while_still(leaving: list[tuple[Workload, int]], waiting: list[tuple[Workload, int]]) -> Changes:
    """How what is held differs from FUTURE_IDLE while these still leave: theirs is held, what waits for them is not.

    Summed by team: quota sees the sums only, and counts each step of the path for each change.
    """
    names = {w.id for w, _ in leaving}
    sums: dict[str, int] = {}
    for workload, milli in leaving:
        sums[workload.team] = sums.get(workload.team, 0) + milli
    for workload, milli in waiting:
        if not names.isdisjoint(workload.after):
            sums[workload.team] = sums.get(workload.team, 0) - milli
    return [(team, milli) for team, milli in sums.items() if milli]


def _leaving_milli(plan: Plan, workload: Workload, pool: str) -> int:
    return plan.leaving_milli(workload).get(pool, 0)


def _reserved_milli(plan: Plan, workload: Workload, pool: str) -> int:
    where, is_all = plan.usage.pool_of, workload.phase is Phase.RESERVED
    there = (a for a in workload.placement if (is_all or a.reserved) and where.get(a.node) == pool)
    return sum(workload.milli_of(a) for a in there)
