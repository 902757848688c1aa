"""What holds for every reference policy in every world, and how a policy is chosen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from controlplane.invariants.footprint import Footprints
from controlplane.invariants.quota import quota_uses
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Decision, Evict, Place, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Snapshot
from scheduler.model.workload import ACTIVE, Kind, Phase
from scheduler.policies import ONLY_COMPARED, POLICIES, UnknownPolicyError, decide, with_policy
from tests.strategies import worlds
from tests.worlds import parse

OTHERS = sorted(POLICIES.keys() - {"weft"})
few = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
rules = {name: Settings(policy=name) for name in OTHERS}


def rounds(world: Snapshot, policy: str) -> list[tuple[Snapshot, tuple[Decision, ...], Snapshot]]:
    """Four rounds, a minute apart, between which what was placed runs and every second thing that leaves has left."""
    out = []
    for number in range(4):
        decisions = decide(world, rules[policy])
        after = world.after(decisions)
        out.append((world, decisions, after))
        world = _moved_on(after, number)
    return out


def _moved_on(world: Snapshot, number: int) -> Snapshot:
    changed, gone = [], []
    for index, workload in enumerate(world.workloads.values()):
        staying = tuple(a for a in workload.placement if not a.leaving)
        if workload.placement and not staying and index % 2 == number % 2:
            gone.append(workload.id)
        elif workload.phase in ACTIVE:
            started = workload.started_at if workload.started_at is not None else world.at
            changed.append(replace(workload, phase=Phase.RUNNING, placement=staying, started_at=started))
    return world.replace(at=world.at + 61, changed=changed, gone=gone)


OVER_BY_WHAT_IS_KEPT = """
    node a 4 gpus
    team t0 nominal 2 borrowing 0
    team t2 nominal 2 lending 0 parent t0
    team t3 nominal 1 parent t0
    r1 t0 training 2 running a:0,1
    w1 t2 training 2 pending
"""  # t0 and what is kept back below it are above the subtree's 3; what is kept may be used all the same


@pytest.mark.parametrize("policy", OTHERS)
@some
@given(world=worlds())
@example(world=parse(OVER_BY_WHAT_IS_KEPT))
def test_every_round_of_every_policy_keeps_every_invariant(policy: str, world: Snapshot) -> None:
    for before, decisions, after in rounds(world, policy):
        for check in INVARIANTS:
            check(before, decisions, after)
        if policy not in ONLY_COMPARED:
            _gangs_are_whole_and_between_their_least_and_most(before, decisions, after)


def _nothing_is_given_out_twice(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    limit = np.maximum(after.inventory.gpu_capacity, before.columns.gpu.max(axis=0))
    for when in (IDLE, FUTURE_IDLE):
        assert (after.columns.gpu[when] <= limit).all()
        assert (after.columns.node[when] <= after.inventory.node_capacity).all()


def _workers_are_where_they_may_be(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    for decision in decisions:
        for worker in decision.workers if isinstance(decision, Place) else ():
            node = before.inventory.nodes[before.inventory.index[worker.node]]
            ask = before.workloads[decision.workload].ask_of(worker.rank)
            assert node.is_usable
            assert not set(worker.gpus) & set(node.lost)
            assert len(set(worker.gpus)) == len(worker.gpus) == (ask.gpus or (1 if ask.share else 0))
            assert not ask.models or node.model in ask.models


def _no_borrowing_limit_is_exceeded(before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot) -> None:
    """As S3 counts it: what a team keeps back counts as taken, and a team that is over its limit does not grow."""
    then = [use for uses in quota_uses(before, Footprints()) for use in uses]
    for uses in quota_uses(after, Footprints()):
        for use in uses:
            at_first = max(one.taken for one in then if (one.team, one.pool) == (use.team, use.pool))
            assert use.most is None or use.taken <= max(use.most, at_first)


def _nobody_is_killed_and_the_placed_are_not_told_to_wait(
    before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot
) -> None:
    assert not any(isinstance(d, Evict) for d in decisions)
    moved = [d.workload for d in decisions if isinstance(d, Place | Shrink)]
    told = [d.workload for d in decisions if isinstance(d, Wait)]
    assert not set(moved) & set(told)
    assert len(told) == len(set(told))
    assert all(before.workloads[uid].is_waiting or before.workloads[uid].phase is Phase.RESERVED for uid in told)


def _gangs_are_whole_and_between_their_least_and_most(
    before: Snapshot, decisions: tuple[Decision, ...], after: Snapshot
) -> None:
    index, nodes = after.inventory.index, after.inventory.nodes
    for uid in {d.workload for d in decisions if isinstance(d, Place | Shrink)}:
        workload, was = after.workloads[uid], before.workloads[uid]
        if workload.kind is not Kind.TRAINING:
            continue
        staying = [a for a in workload.placement if not a.leaving]
        fixed = workload.role_members
        assert set(range(fixed)) <= {a.rank for a in staying}
        assert workload.gang.min <= len(staying) - fixed <= workload.gang.max
        # Worker 0 stands for the parameter server: it is never taken away.
        first = min((a.rank for a in was.placement if not a.leaving and a.rank >= fixed), default=fixed)
        assert first in {a.rank for a in staying}
        assert len({a.rank for a in workload.placement}) == len(workload.placement)
        models = [{nodes[index[a.node]].model for a in held if a.gpus} for held in (was.placement, staying)]
        assert not workload.uses_gpus or len(models[1]) <= max(1, len(models[0]))  # a drawn world may have mixed some


INVARIANTS = (
    _nothing_is_given_out_twice,
    _workers_are_where_they_may_be,
    _no_borrowing_limit_is_exceeded,
    _nobody_is_killed_and_the_placed_are_not_told_to_wait,
)


@pytest.mark.parametrize("policy", OTHERS)
@few
@given(world=worlds())
def test_the_same_input_gives_the_same_decisions(policy: str, world: Snapshot) -> None:
    again = Snapshot.build(
        world.at, world.inventory.nodes, world.teams, world.quotas, reversed(list(world.workloads.values()))
    )
    first = decide(world, rules[policy])
    assert repr(first) == repr(decide(world, rules[policy])) == repr(decide(again, rules[policy]))


@few
@given(world=worlds())
def test_weft_is_the_policy_unless_another_is_named(world: Snapshot) -> None:
    assert decide(world, Settings()) == schedule(world, Settings())


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownPolicyError, match=r"'fair' is not a scheduling policy\. The policies are weft, fifo, "):
        with_policy(Settings(), "fair")
