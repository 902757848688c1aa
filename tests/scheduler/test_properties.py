"""What holds in every world: S1, S3, S4, S6, S8, S9, S14, S17, S18."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from hypothesis import HealthCheck, event, given, settings

from scheduler.cycle.ordering import asks_no_more, within_team
from scheduler.cycle.schedule import schedule
from scheduler.fit.claim import find
from scheduler.model.decision import Decision, Evict, EvictReason, Place, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Snapshot, applied
from scheduler.model.workload import ACTIVE, Kind, Level, Phase, most, surplus
from scheduler.preemption.moving import keep
from scheduler.quota.tree import Tree, Usage
from scheduler.quota.tree import held as holds
from scheduler.state.plan import Plan
from scheduler.state.session import Session
from tests.strategies import worlds

RULES = Settings()
many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def rounds(world: Snapshot) -> Iterator[tuple[Snapshot, tuple[Decision, ...], Snapshot]]:
    """Three rounds, between which half of those that leave have left and those that waited for them start."""
    for number in range(3):
        decisions = schedule(world, RULES)
        after = world.after(decisions)
        yield world, decisions, after
        world = _moved_on(after, number)


def _moved_on(world: Snapshot, number: int) -> Snapshot:
    from dataclasses import replace

    leaving = [w for w in world.workloads.values() if w.placement and all(a.leaving for a in w.placement)]
    gone = {w.id for i, w in enumerate(leaving) if i % 2 == number % 2}
    changed = []
    for workload in world.workloads.values():
        if workload.after and not set(workload.after) & (world.workloads.keys() - gone):
            bound = tuple(replace(a, reserved=False) for a in workload.placement)
            phase = Phase.ADMITTED if workload.phase == Phase.RESERVED else workload.phase
            changed.append(replace(workload, placement=bound, phase=phase, after=()))
        elif workload.phase == Phase.ADMITTED:
            changed.append(replace(workload, phase=Phase.RUNNING, started_at=world.at))
    return world.replace(at=world.at + 61, changed=changed, gone=gone)


@many
@given(worlds())
def test_every_round_keeps_every_invariant(world: Snapshot) -> None:
    for before, decisions, after in rounds(world):
        for check in INVARIANTS:
            check(before, decisions, after)


def usage(world: Snapshot) -> Usage:
    out = Usage(Tree(world), {n.name: n.pool for n in world.inventory.nodes})
    out.count_all(world.workloads.values())
    return out


def _no_gpu_and_no_node_is_given_out_twice(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    inventory = after.inventory
    for when in (IDLE, FUTURE_IDLE):
        # A lost device may still be held by those that ran there; nothing is added.
        limit = np.maximum(inventory.gpu_capacity, before.columns.gpu.max(axis=0))
        assert (after.columns.gpu[when] <= limit).all()
        assert (after.columns.node[when] <= inventory.node_capacity).all()


def _whole_gpus_are_alone_and_places_are_valid(
    before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot
) -> None:
    index = {n.name: n for n in after.inventory.nodes}
    for decision in decisions:
        if not isinstance(decision, Place):
            continue
        for worker in decision.workers:
            ask = before.workloads[decision.workload].ask_of(worker.rank)
            node = index[worker.node]
            assert node.is_usable
            assert not set(worker.gpus) & set(node.lost)
            assert len(worker.gpus) == (ask.gpus or (1 if ask.share else 0))
            assert not ask.models or node.model in ask.models
    for when in (IDLE, FUTURE_IDLE):
        for at, tenants in _tenants(after, when).items():
            assert not any(tenants) or len(tenants) == 1, at


def _tenants(world: Snapshot, when: int) -> dict[tuple[str, int], list[bool]]:
    """For each device whether those that hold it hold all of it."""
    out: dict[tuple[str, int], list[bool]] = {}
    for workload in world.workloads.values():
        for worker in workload.placement:
            waits = worker.reserved or workload.phase == Phase.RESERVED
            if (when == IDLE and waits) or (when == FUTURE_IDLE and worker.leaving):
                continue
            for index in worker.gpus:
                out.setdefault((worker.node, index), []).append(workload.ask_of(worker.rank).share is None)
    return out


def _gangs_start_whole_close_enough_and_on_one_model(
    before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot
) -> None:
    inventory = before.inventory
    for decision in decisions:
        if not isinstance(decision, Place):
            continue
        workload = before.workloads[decision.workload]
        count = len(decision.workers)
        fixed = workload.role_members
        new = {a.rank for a in decision.workers if a.rank < fixed}
        assert new == (set() if workload.placement else set(range(fixed)))  # all of them, with the first workers
        is_grown = bool(workload.placement) and workload.kind is Kind.TRAINING
        assert count - len(new) <= (most(workload) - len(workload.placement) + fixed if is_grown else workload.missing)
        assert len({a.rank for a in (*workload.placement, *decision.workers)}) == count + len(workload.placement)
        if workload.kind is Kind.INFERENCE:
            continue
        workers = (*workload.placement, *decision.workers)  # an elastic gang may grow beside those that run
        assert workload.gang.min <= len(workers) - fixed <= (most(workload) if is_grown else workload.gang.count)
        at = [inventory.index[w.node] for w in workers]
        with_gpus = [i for i, w in zip(at, workers, strict=True) if w.gpus]
        if workload.uses_gpus:
            assert len({inventory.nodes[i].model for i in with_gpus}) == 1
        links = {
            int(inventory.link_of[inventory.offset[i] + g]) for i, w in zip(at, workers, strict=True) for g in w.gpus
        }
        match workload.topology.require:
            case Level.RACK:
                assert len({int(inventory.rack_of[i]) for i in at}) == 1
            case Level.NODE:
                assert len(set(at)) == 1
            case Level.NVLINK:
                assert len(links) <= 1


def _quota_is_respected_at_once_and_later(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    old, new = usage(before), usage(after)
    for (team, pool), node in new.tree.quota_nodes.items():
        for when in (IDLE, FUTURE_IDLE):
            if node.most is not None:
                assert new.total[when][team, pool] <= max(node.most, old.total[when][team, pool])
    for decision in decisions:
        workload = before.workloads[decision.workload]
        if isinstance(decision, Place) and workload.uses_gpus and not workload.preemptible:
            for pool in {new.pool_of[worker.node] for worker in decision.workers if worker.gpus}:
                quota_nodes = [(n, new.tree.quota_nodes[n, pool]) for n in new.tree.path(workload.team)]
                name, node = next((n, p) for n, p in quota_nodes if p.quota is not None)
                assert new.firm[FUTURE_IDLE][name, pool] <= node.nominal


def _victims_are_legal_and_waited_for(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    placed = {d.workload: d for d in decisions if isinstance(d, Place)}
    held, tree = usage(before), Tree(before)
    for decision in decisions:
        if isinstance(decision, Shrink):
            assert decision.workload in placed[decision.by].after
            _shrinks_legally(before, decision, held, tree)
        elif isinstance(decision, Evict):
            event(decision.reason)
            assert decision.workload in placed[decision.by].after  # S9: what it frees is its claimant's
            _leaves_legally(before, decision, held, tree)
            held.count(before.workloads[decision.workload], -1)
        elif isinstance(decision, Place):
            held.count(before.workloads[decision.workload], -1)
            held.count(applied(before.workloads[decision.workload], decision, before.at))


def _leaves_legally(before: Snapshot, decision: Evict, held: Usage, tree: Tree) -> None:
    victim, claimant = before.workloads[decision.workload], before.workloads[decision.by]
    assert victim.preemptible
    assert victim.phase in ACTIVE
    assert victim.started_at is not None
    assert before.at - victim.started_at >= RULES.min_runtime_seconds
    if decision.reason is EvictReason.PREEMPTED:
        assert victim.team == claimant.team
        waited = before.at - claimant.queued_at
        is_overtaken = claimant.queued_at < victim.queued_at and waited > RULES.overtaken_seconds
        is_for_service = claimant.at_risk and victim.kind is Kind.TRAINING
        may_overtake = is_overtaken and victim.priority == claimant.priority
        assert victim.priority < claimant.priority or may_overtake or is_for_service
    elif decision.reason is EvictReason.CONSOLIDATED:
        assert victim.kind is not Kind.INFERENCE
        assert victim.checkpoint_interval is not None
    else:
        lenders = [n for n in tree.path(victim.team) if n not in tree.path(claimant.team)]
        for (pool, _), milli in holds(victim, held.pool_of).items():
            for node, name in ((tree.quota_nodes[n, pool], n) for n in lenders):
                assert node.quota is None or held.total[FUTURE_IDLE][name, pool] - milli >= node.nominal


def _shrinks_legally(before: Snapshot, decision: Shrink, held: Usage, tree: Tree) -> None:
    event("Shrink")
    gang, claimant = before.workloads[decision.workload], before.workloads[decision.by]
    assert len(gang.placement) - gang.role_members - len(decision.ranks) >= gang.gang.min
    assert min(decision.ranks) > gang.role_members  # neither a role member nor the first worker
    held.count(gang, -1)
    held.count(applied(gang, decision, before.at))
    if len(decision.ranks) <= surplus(gang):
        return  # any claimant gets what was lent
    if gang.team == claimant.team:
        assert gang.priority <= claimant.priority or claimant.at_risk
        return
    lenders = [n for n in tree.path(gang.team) if n not in tree.path(claimant.team)]
    for pool in held.by_pool(gang):
        quota_nodes = ((tree.quota_nodes[n, pool], n) for n in lenders)
        assert all(p.quota is None or held.total[FUTURE_IDLE][n, pool] >= p.nominal for p, n in quota_nodes)


@some
@given(worlds(max_workloads=7))
def test_no_set_of_victims_could_be_smaller(world: Snapshot) -> None:
    """Brute force: on the plan as it was at the claimant's turn, no proper subset of its victims suffices."""
    decisions = schedule(world, RULES)
    moves = [d for d in decisions if isinstance(d, Place | Evict | Shrink)]
    session = Session(world, RULES)
    plan = session.plan
    for position, decision in enumerate(moves):
        claimant = world.workloads[decision.workload]
        if not isinstance(decision, Place) or claimant.phase == Phase.RUNNING and claimant.kind is Kind.TRAINING:
            continue
        mine = [d for d in moves[:position] if isinstance(d, Evict | Shrink) and d.by == claimant.id]
        evicts = [d for d in mine if isinstance(d, Evict)]
        # A claim on others' room is for what the team owns; one on its own team's, or on moves, is not.
        is_reclaim = any(world.workloads[d.workload].team != claimant.team and not _is_lent(world, d) for d in mine)
        is_owed = is_reclaim and not any(d.reason is EvictReason.CONSOLIDATED for d in evicts)
        parts = [(d, rank) for d in mine for rank in (d.ranks if isinstance(d, Shrink) else (-1,))]
        for size in range(len(parts)):
            for chosen in combinations(parts, size):
                mark = plan.mark()
                _leave(plan, world, chosen)
                assert find(session, claimant, FUTURE_IDLE, is_owed) is None, (claimant.id, chosen)
                plan.rollback(mark)
        _leave(plan, world, parts)
        plan.place(claimant, decision.workers, decision.after)
        for evicted in evicts:
            if evicted.reason is EvictReason.CONSOLIDATED:
                assert keep(session, plan.workload(evicted.workload))


def _is_lent(world: Snapshot, decision: Evict | Shrink) -> bool:
    """Whether only workers beyond the count of a gang leave."""
    return isinstance(decision, Shrink) and len(decision.ranks) <= surplus(world.workloads[decision.workload])


def _leave(plan: Plan, world: Snapshot, parts: Sequence[tuple[Evict | Shrink, int]]) -> None:
    """Make these leave on the plan: (eviction, -1) or (shrink, one of its ranks)."""
    ranks: dict[str, list[int]] = {}
    for decision, rank in parts:
        if isinstance(decision, Evict):
            plan.evict(world.workloads[decision.workload], decision.reason, decision.by)
        else:
            ranks.setdefault(decision.workload, []).append(rank)
    for uid, chosen in ranks.items():
        plan.shrink(world.workloads[uid], chosen, "")


def _nobody_overtakes_an_earlier_equal_that_asks_no_more(
    before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot
) -> None:
    placed = {d.workload for d in decisions if isinstance(d, Place)}
    queue = [w for w in before.workloads.values() if w.phase == Phase.QUEUED and not w.unmet and w.not_before is None]
    for one, other in combinations(within_team(queue, before.at, RULES), 2):
        if one.priority >= other.priority and asks_no_more(one, other) and one.gang.count <= other.gang.count:
            assert one.id in placed or other.id not in placed


def _every_claimant_is_placed_or_knows_why(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    placed = [d.workload for d in decisions if isinstance(d, Place)]
    told = [d.workload for d in decisions if isinstance(d, Wait)]
    assert len(set(placed + told)) == len(placed) + len(told)
    claimants = {w.id for w in before.workloads.values() if w.is_waiting}
    growing = {w.id for w in before.workloads.values() if w.phase == Phase.RUNNING and w.gang.min < most(w)}
    assert set(placed) <= claimants | growing
    evicted = {d.workload for d in decisions if isinstance(d, Evict)}
    assert not evicted & {*placed, *told}
    silent = {uid for uid in claimants - set(placed) - evicted if not after.workloads[uid].reason}
    assert not silent


@some
@given(worlds())
def test_the_same_input_gives_the_same_decisions(world: Snapshot) -> None:
    again = Snapshot.build(
        world.at, world.inventory.nodes, world.teams, world.quotas, reversed(list(world.workloads.values())), world.use
    )
    assert repr(schedule(world, RULES)) == repr(schedule(world, RULES)) == repr(schedule(again, RULES))


def _columns_are_those_built_from_scratch(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    fresh = Snapshot.build(after.at, after.inventory.nodes, after.teams, after.quotas, after.workloads.values())
    assert (fresh.columns.gpu == after.columns.gpu).all()
    assert (fresh.columns.node == after.columns.node).all()


@some
@given(worlds())
def test_a_plan_rolled_back_is_the_plan_before(world: Snapshot) -> None:
    session, fresh = Session(world, RULES), Plan(world)
    plan = session.plan
    for workload in list(world.workloads.values()):
        if workload.phase in ACTIVE:
            plan.evict(workload, EvictReason.PREEMPTED, "x")
    for workload in plan.waiting:
        places = find(session, workload, FUTURE_IDLE)
        if places is not None and plan.workload(workload.id) is workload:
            plan.place(workload, places, plan.leaving)
    plan.rollback(0)
    for mine, theirs in zip(plan.free, fresh.free, strict=True):
        assert (mine.gpu == theirs.gpu).all()
        assert (mine.node == theirs.node).all()
        assert (mine.idle == theirs.idle).all()
    assert plan.usage.total == fresh.usage.total
    assert plan.decisions == ()


INVARIANTS = (
    _no_gpu_and_no_node_is_given_out_twice,
    _whole_gpus_are_alone_and_places_are_valid,
    _gangs_start_whole_close_enough_and_on_one_model,
    _quota_is_respected_at_once_and_later,
    _victims_are_legal_and_waited_for,
    _nobody_overtakes_an_earlier_equal_that_asks_no_more,
    _every_claimant_is_placed_or_knows_why,
    _columns_are_those_built_from_scratch,
)
