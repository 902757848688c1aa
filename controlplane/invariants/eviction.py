"""S8 preemption legality and S9 no useless kill: what is preempted, by which claimant, and what for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from typing import TypeGuard

from controlplane.invariants.footprint import Footprints
from controlplane.invariants.quota import QuotaUse, quota_uses
from controlplane.invariants.state import Claim, Round, Schedule, State, Violation
from scheduler.model.decision import Decision, Evict, EvictReason, Place, Shrink
from scheduler.model.settings import Settings
from scheduler.model.sharing import is_on_part
from scheduler.model.snapshot import FUTURE_IDLE, Snapshot
from scheduler.model.workload import ACTIVE, LEAVING, Assignment, Kind, Phase, Workload
from scheduler.preemption.moving import keep_places
from scheduler.state.ledger import is_movable
from scheduler.state.session import Session

OF_ITS_OWN = (EvictReason.TAKEN_BACK, EvictReason.REALLOCATED)  # no claimant waits for what leaves so
MAX_VICTIMS = 12  # more subsets than 2**12 are not tried


def s8_legality(state: State, max_left_out: int = MAX_VICTIMS) -> tuple[Violation, ...]:
    """Every victim may be asked by its claimant, and every victim is needed.

    By priority: a lower one of the same team, for a service at risk any of its trainings. By reclaim: the
    claimant's team stays within its nominal quota and the victim's team borrows, be it what its own children own.
    By fair share: the victim's team borrows, keeps its nominal quota, and the victim has run for the longer time
    that borrowed work is left to its borrower. To move it: it saves checkpoints and is no service. What a service's
    sleeping replica lent is taken back when that one is not there asleep any more, from a gang that cannot go on
    without. One that leaves for other places by its own wish had asked for that, and gets them in the shape that it
    asked for, off the nodes that it named. Every other victim is preemptible and has run for the least time (how
    often it may be asked is S10's). Needed: with any
    proper subset of the victims out of the way, the scheduler itself, asked about the claimant alone, finds no
    place for it. Tried on all subsets of up to 12 victims, or on those that leave at most `max_left_out` of them
    out; leaving out one is enough wherever room helps monotonously.
    """
    if state.round is None:
        return ()
    found = list(_without_claimant(state.round))
    for claimant, victims, world in _scenes(state.round):
        by = world.workloads.get(claimant)
        if by is None:
            found.append(Violation("S8", claimant, "Workloads are preempted for one that does not exist."))
            continue
        for evict in victims:
            victim = world.workloads[evict.workload]
            if why := _illegal(world, by, victim, evict.reason, state.round.settings):
                found.append(Violation("S8", victim.id, f"It has to leave for {claimant}, but {why}."))
            world = world.after([evict])
        found += _spared(state.round, by, victims, max_left_out)
    return tuple(found)


def _without_claimant(made: Round) -> Iterator[Violation]:
    for evict, world in _taken_back(made):
        if why := _still_lent(world, world.workloads[evict.workload]):
            yield Violation("S8", evict.workload, f"It has to give lent GPUs back, but {why}.")
    for evict, world in _by_wish(made):
        one = world.workloads[evict.workload]
        is_beside = any(a.lender and is_on_part(world.workloads[a.lender]) for a in one.placement)
        if not is_beside and (why := _unwished(one, evict)):
            yield Violation("S8", evict.workload, f"It leaves by its own wish, but {why}.")


def _taken_back(made: Round) -> Iterator[tuple[Evict, Snapshot]]:
    """Each gang that has to leave as it cannot do without a lent GPU, and the world before."""
    for i, decision in enumerate(made.decisions):
        if isinstance(decision, Evict) and decision.reason == EvictReason.TAKEN_BACK:
            yield decision, _so_far(made, made.decisions[:i])


def _by_wish(made: Round) -> Iterator[tuple[Evict, Snapshot]]:
    """Each that leaves for places where it asked to run, and the world before."""
    for i, decision in enumerate(made.decisions):
        if isinstance(decision, Evict) and decision.reason == EvictReason.REALLOCATED:
            yield decision, _so_far(made, made.decisions[:i])


def _unwished(one: Workload, evict: Evict) -> str:
    """Why it had not asked for that, or nothing."""
    if not one.preemptible or not is_movable(one):
        return "it saves no checkpoints or may not be stopped"
    workers = Counter(place.node for place in evict.keeps if place.rank >= one.role_members)
    if not one.goes_to or tuple(sorted(workers.values(), reverse=True)) != one.goes_to:
        return f"it asked for {one.goes_to} and gets {dict(workers)}"
    if named := sorted(workers.keys() & set(one.off)):
        return f"it asked to stay off {', '.join(named)}"
    return ""


def _still_lent(world: Snapshot, gang: Workload) -> str:
    """Why it need not leave, or nothing. A share that waits may need what it has beside others."""
    lent = {a.rank: (a.lender, a.node, a.gpus) for a in gang.placement if a.lender and not a.leaving}
    lends = {
        (w.id, a.node, a.gpus)
        for w in world.workloads.values()
        for a in w.placement
        if not a.leaving and (a.asleep_at is not None or is_on_part(w))
    }
    gives = [rank for rank, seat in lent.items() if seat not in lends]
    stay = sorted(a.rank for a in gang.placement if not a.leaving and a.rank >= gang.role_members)
    if not gives:
        waits = any(w.is_waiting and w.ask.share for w in world.workloads.values())
        is_beside = any(is_on_part(world.workloads[lender]) for lender, _, _ in lent.values())
        return "" if waits and is_beside else "what lent them is there: replicas that sleep, or shares"
    if len(stay) - len(gives) >= max(1, gang.gang.min) and min(stay) not in gives:
        return f"it can go on with {len(stay) - len(gives)} workers"
    return ""


def _scenes(made: Round) -> Iterator[tuple[str, list[Evict], Snapshot]]:
    """Each claimant of the round with its victims, and the world just before they are made to leave."""
    decisions = list(made.decisions)
    seen: set[str] = set()
    for i, decision in enumerate(decisions):
        if _makes_room(decision) and decision.by not in seen:
            seen.add(decision.by)
            victims = [d for d in decisions[i:] if _makes_room(d) and d.by == decision.by]
            yield decision.by, victims, _so_far(made, decisions[:i])


def _makes_room(decision: Decision) -> TypeGuard[Evict]:
    return isinstance(decision, Evict) and decision.reason not in OF_ITS_OWN


def _so_far(made: Round, decisions: Sequence[Decision]) -> Snapshot:
    """The world after these, with the places that the round keeps for those that move, which no row holds."""
    world, kept = made.snapshot.after(decisions), _kept_before(made.snapshot, made.settings)
    kept |= {d.workload: d.keeps for d in decisions if isinstance(d, Evict) and d.keeps}
    moved = []
    for uid, places in kept.items():
        one = world.workloads[uid]
        promised = tuple(replace(place, reserved=True) for place in places)
        moved.append(replace(one, moving=False, placement=(*one.placement, *promised)))
    return world.replace(changed=moved)


def _kept_before(world: Snapshot, settings: Settings) -> dict[str, tuple[Assignment, ...]]:
    """What the round keeps at its start for those that an earlier one moved and that still leave."""
    moving = [w for w in world.workloads.values() if w.moving and w.phase == Phase.CHECKPOINTING]
    if not moving:
        return {}
    session = Session(world, settings)
    keep_places(session)
    return {w.id: session.plan.workload(w.id).placement[len(w.placement) :] for w in moving}


def _illegal(world: Snapshot, by: Workload, victim: Workload, reason: EvictReason, settings: Settings) -> str:
    """Why the victim may not be asked, or nothing."""
    if not victim.preemptible:
        return "it may not be preempted"
    if victim.started_at is None or world.at - victim.started_at < settings.min_runtime_seconds:
        return f"it has not run for {settings.min_runtime_seconds:g} s yet"
    if reason == EvictReason.PREEMPTED:
        return _not_below(world, by, victim, settings)
    if reason == EvictReason.CONSOLIDATED:
        return "" if is_movable(victim) else "it saves no checkpoints or is a service, so it may not be moved"
    if reason == EvictReason.FAIR_SHARE:
        return _not_borrowed(world, by, victim, settings)
    return _not_owed(world, by, victim)


def _not_below(world: Snapshot, by: Workload, victim: Workload, settings: Settings) -> str:
    """Why it may not be preempted by that claimant, or nothing."""
    if victim.team != by.team:
        return f"it is of team {victim.team}, which only a reclaim may ask"
    if by.at_risk and victim.kind is Kind.TRAINING:
        return ""
    if victim.priority >= by.priority and not _overtook(world, by, victim, settings):
        return f"its priority {victim.priority} is not below {by.priority}, and it did not overtake it long ago"
    return ""


def _overtook(world: Snapshot, by: Workload, victim: Workload, settings: Settings) -> bool:
    """Whether the victim was queued after the claimant, with no more priority, and that one waits for too long."""
    is_before = by.queued_at < victim.queued_at and by.priority == victim.priority
    return is_before and world.at - by.queued_at > settings.overtaken_seconds


def _not_borrowed(world: Snapshot, by: Workload, victim: Workload, settings: Settings) -> str:
    """Why the victim is not held by borrowing, long enough, by a team other than the claimant's; or nothing."""
    if victim.started_at is not None and world.at - victim.started_at < settings.borrower_runtime_seconds:
        return f"it has not run for {settings.borrower_runtime_seconds:g} s yet"
    theirs = [team for team in _line(world, victim.team) if team not in _line(world, by.team)]
    nominal, held = _owned_and_held(world)
    pool_of = {node.name: node.pool for node in world.inventory.nodes}
    takes = Counter[str]()
    for worker in victim.placement:
        if worker.node in pool_of:
            takes[pool_of[worker.node]] += victim.milli_of(worker)
    for pool, milli in takes.items():
        if not theirs or any(held[team, pool] - milli < nominal.get((team, pool), 0) for team in theirs):
            return f"team {victim.team} owns what it holds in {pool}"
    return ""


def _not_owed(world: Snapshot, by: Workload, victim: Workload) -> str:
    """Why the claimant's team may not take back what the victim holds, or nothing."""
    mine, theirs = _line(world, by.team), _line(world, victim.team)
    nominal, held = _owned_and_held(world)
    pool_of = {node.name: node.pool for node in world.inventory.nodes}
    pools = {pool_of[a.node] for a in victim.placement if a.node in pool_of}
    need = _least_milli(by)
    for pool in sorted(pools):
        owners = [t for t in mine if t not in theirs and (t, pool) in nominal]
        is_over = any(held[t, pool] + need > nominal[t, pool] for t in owners)
        borrows = any(held[t, pool] > nominal.get((t, pool), 0) for t in theirs if t not in mine)
        from_above = victim.team in mine and _is_on_childrens(world, victim.team, pool)
        if owners and not is_over and (borrows or from_above):
            return ""
    return f"team {by.team} is not owed what it holds in {', '.join(sorted(pools))}"


def _is_on_childrens(world: Snapshot, team: str, pool: str) -> bool:
    """Whether the team's own work holds more than what no child of it owns."""
    now = {s.team: s for s in quota_uses(world, Footprints())[FUTURE_IDLE] if s.pool == pool}
    children = [now[t.name] for t in world.teams if t.parent == team]
    own = (now[team].owned or 0) - sum(_owned(world, now, child.team) for child in children)
    return now[team].held - sum(child.held for child in children) > max(0, own)


def _owned(world: Snapshot, now: Mapping[str, QuotaUse], team: str) -> int:
    """What a team owns: by its quota row, or, without one, what its children own."""
    owned = now[team].owned
    return sum(_owned(world, now, t.name) for t in world.teams if t.parent == team) if owned is None else owned


def _line(world: Snapshot, team: str) -> list[str]:
    """A team and its ancestors."""
    parent = {t.name: t.parent for t in world.teams}
    line = [team]
    while (above := parent.get(line[-1])) is not None:
        line.append(above)
    return line


def _spared(made: Round, by: Workload, victims: Sequence[Evict], max_left_out: int) -> Iterator[Violation]:
    """A proper subset that would have been enough, if there is one."""
    if made.schedule is None or len(victims) > MAX_VICTIMS:
        return
    before = made.decisions[: made.decisions.index(victims[0])]
    world = _so_far(made, [d for d in before if not _is_about(d, by.id)])
    for left_out in range(1, min(len(victims), max_left_out) + 1):
        for subset in combinations(victims, len(victims) - left_out):
            if _is_enough(made, world.after(subset), by, victims[0].reason):
                named = ", ".join(v.workload for v in subset) or "nothing"
                yield Violation("S8", by.id, f"{len(victims)} have to leave for it, but it fits if {named} does.")
                return


def _is_enough(made: Round, world: Snapshot, by: Workload, reason: EvictReason) -> bool:
    """Whether the claimant fits in this world on the terms on which it makes others leave."""
    if made.schedule is None:
        return False
    if reason != EvictReason.RECLAIMED:
        return place_alone(made.schedule, world, by.id, made.settings) is not None
    place = place_alone(made.schedule, _only_owed(world, by.team), by.id, made.settings)
    return place is not None and _is_owed(world, by, place)


def _owned_and_held(world: Snapshot) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """By team and pool: what those with a quota own, and what all hold once what leaves has left."""
    now = quota_uses(world, Footprints())[FUTURE_IDLE]
    owned = {(s.team, s.pool): s.owned for s in now if s.owned is not None and s.team}
    return owned, {(s.team, s.pool): s.held for s in now}


def _is_owed(world: Snapshot, by: Workload, place: Place) -> bool:
    """Whether the claimant's team and all its ancestors stay within their nominal quotas with the least of it."""
    nominal, held = _owned_and_held(world)
    # Role members without GPUs may be in another pool.
    first = next((worker for worker in place.workers if worker.gpus), place.workers[0])
    node = world.inventory.nodes[world.inventory.index[first.node]]
    owners = [(team, node.pool) for team in _line(world, by.team) if (team, node.pool) in nominal]
    return all(held[key] + _least_milli(by) <= nominal[key] for key in owners)


def _least_milli(by: Workload) -> int:
    fixed = sum(role.ask.milli * role.count for role in by.roles)
    return fixed + by.ask.milli * (1 if by.kind == Kind.INFERENCE else by.gang.min)


def _only_owed(world: Snapshot, team: str) -> Snapshot:
    """The same world in which the team may not borrow: a reclaim takes only what is owed, by all its ancestors too."""
    line = _line(world, team)
    quotas = [replace(q, borrowing=0) if q.team in line else q for q in world.quotas]
    kept = world.use, world.budgets, world.demand, world.history
    return Snapshot.build(world.at, world.inventory.nodes, world.teams, quotas, world.workloads.values(), *kept)


def _is_about(decision: Decision, uid: str) -> bool:
    return decision.workload == uid


def place_alone(schedule: Schedule, world: Snapshot, uid: str, settings: Settings) -> Place | None:
    """Where the scheduler gives this workload GPUs of its own when no other waits and no more may be preempted."""
    settings = replace(settings, lend_after_seconds=inf, harvest=False)
    changed, gone = [], []
    for workload in world.workloads.values():
        if workload.id == uid:
            continue
        if workload.phase == Phase.QUEUED:
            gone.append(workload.id)
        elif workload.phase in ACTIVE:
            # Not started counts as protected; a service that wants no more replicas does not claim.
            staying = sum(not a.leaving for a in workload.placement)
            count = staying - workload.role_members
            if workload.kind == Kind.INFERENCE:
                count = min(workload.gang.count, count)
            # Nor does an elastic gang shrink or grow; what it borrows it still gives back without leaving itself.
            own = count - sum(bool(a.lender) and not a.leaving for a in workload.placement)
            gang = replace(workload.gang, count=count, min=own, max=count)
            changed.append(replace(workload, started_at=None, gang=gang))
    decisions = schedule(world.replace(changed=changed, gone=gone), settings)
    return next((d for d in decisions if isinstance(d, Place) and d.workload == uid), None)


def s9_no_useless_kill(state: State) -> tuple[Violation, ...]:
    """No workload leaves for nothing: the room goes to the claimant, on exactly the places promised.

    In the round: a preempting claimant is placed by the same decisions, after them. Afterwards, for every open
    claim: the claimant keeps its places while the victims leave, and starts on them once they have left. A claim
    ends well when the claimant starts, and is excused when it is stopped or evicted itself or a node is lost.
    """
    found = list(_unplaced_claimants(state.round)) if state.round else []
    for claim in state.claims:
        if state.only is not None and state.only.isdisjoint((claim.claimant, *claim.victims)):
            continue
        if why := _useless(state.snapshot, claim):
            found.append(Violation("S9", claim.claimant, f"{', '.join(claim.victims)} had to leave for it, but {why}."))
    return tuple(found)


def _unplaced_claimants(made: Round) -> Iterator[Violation]:
    after: dict[str, set[str]] = {}
    for decision in made.decisions:
        if isinstance(decision, Place):
            after.setdefault(decision.workload, set()).update(decision.after)
    for decision in made.decisions:
        if isinstance(decision, Evict | Shrink) and decision.by and decision.workload not in after.get(decision.by, ()):
            what = "leave" if isinstance(decision, Evict) else "give workers"
            message = f"It has to {what} for {decision.by}, which does not get its room."
            yield Violation("S9", decision.workload, message)


def _useless(world: Snapshot, claim: Claim) -> str:
    """How a claim was broken, or nothing."""
    workload = world.workloads.get(claim.claimant)
    if claim.is_excused or workload is None or workload.attempt != claim.attempt or workload.phase in LEAVING:
        return ""
    here = {(a.rank, a.node, a.gpus): a for a in workload.placement}
    promised = [(a.rank, a.node, a.gpus) for a in claim.workers]
    lost = [place for place in promised if place not in here]
    if lost:
        return f"it lost its places {lost} ({workload.phase})"
    still = [here[p] for p in promised if here[p].reserved or workload.phase == Phase.RESERVED]
    if still and not any(_holds(world, uid) for uid in claim.victims):
        return f"they have left and it still waits ({workload.phase})"
    return ""


def _holds(world: Snapshot, uid: str) -> bool:
    victim = world.workloads.get(uid)
    return victim is not None and any(a.leaving for a in victim.placement)


def open_claims(claims: Iterable[Claim], world: Snapshot) -> list[Claim]:
    """The claims that are neither fulfilled nor excused yet: the rest need not be looked at again."""
    out = []
    for claim in claims:
        workload = world.workloads.get(claim.claimant)
        if workload is None or claim.is_excused or workload.attempt != claim.attempt:
            continue
        ranks = {a.rank for a in claim.workers}
        reserved = workload.phase == Phase.RESERVED or any(a.reserved and a.rank in ranks for a in workload.placement)
        if reserved:
            out.append(claim)
    return out
