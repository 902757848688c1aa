"""Victims that are tried beside the plan: what is free and held then is what the plan itself would say."""

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from scheduler.fit.claim import fits
from scheduler.model.decision import EvictReason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Snapshot
from scheduler.model.workload import Workload, least
from scheduler.preemption.scratch import Scratch
from scheduler.state.session import Session
from scheduler.state.tenants import has_share
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings(min_runtime_seconds=0.0)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(), st.data())
def test_a_claimant_fits_beside_the_trial_when_it_fits_on_the_plan(world: Snapshot, data: st.DataObject) -> None:
    session = Session(world, RULES)
    plan, victims = session.plan, session.evictable.workloads
    waiting = [w for w in plan.waiting if w.team in plan.usage.tree.paths and least(w) > 0]
    if not waiting or not victims:
        return
    claimant = data.draw(st.sampled_from(waiting))
    if has_share(claimant) and plan.tenants is not None:
        return  # the plan itself is asked then
    chosen = data.draw(st.lists(st.sampled_from(victims), unique_by=lambda w: w.id))
    is_owed = data.draw(st.booleans())
    before, total = plan.free[FUTURE_IDLE].gpu.copy(), dict(plan.usage.total[FUTURE_IDLE])
    scratch = Scratch(session, claimant, is_owed)
    needed = scratch.needed(chosen, lambda victim: True)
    assert np.array_equal(plan.free[FUTURE_IDLE].gpu, before)
    assert plan.usage.total[FUTURE_IDLE] == total
    assert needed == on_the_plan(session, claimant, chosen, is_owed)
    event(f"needed: {min(len(needed), 3)}")


def on_the_plan(session: Session, claimant: Workload, chosen: list[Workload], is_owed: bool) -> list[Workload]:
    """The same, by evictions: all until it fits, then each back that is not needed. Looks after the same numbers."""
    plan = session.plan
    gone: list[Workload] = []
    for victim in chosen:
        plan.evict(victim, EvictReason.PREEMPTED, claimant.id)
        gone.append(victim)
        if fits(session, claimant, FUTURE_IDLE, is_owed):
            break
    else:
        return []
    needed = []
    for victim in reversed(gone):
        plan.put(victim)
        if not fits(session, claimant, FUTURE_IDLE, is_owed):
            plan.evict(victim, EvictReason.PREEMPTED, claimant.id)
            needed.append(victim)
    return needed[::-1]


def test_a_trial_leaves_out_the_dearest_that_need_not_go() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 4
        x red training 1 running a   y red training 2 running a   z red training 1 running a
        w red training 2 priority 9 pending
    """)
    session = Session(world, RULES)
    by_name = session.snapshot.workloads
    scratch = Scratch(session, by_name["w"], is_owed=False)
    assert not scratch.fits()
    assert scratch.needed([by_name["x"], by_name["y"], by_name["z"]], lambda victim: True) == [by_name["y"]]
    assert scratch.needed([by_name["x"], by_name["y"], by_name["z"]], lambda v: v.id != "y") == [
        by_name["x"],
        by_name["z"],
    ]
    assert scratch.needed([by_name["x"]], lambda victim: True) == []
