"""Elastic gangs on the GPUs of sleeping replicas: what they get, what they take of the account, and when they leave."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, Place, Shrink, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY, Snapshot
from scheduler.model.workload import Kind, Phase, can_shrink, owned, staying, surplus
from scheduler.state.ledger import Ledger
from scheduler.state.plan import Plan
from tests.strategies import worlds_with_standby
from tests.worlds import facts, moves, parse, place, shrink

RULES = Settings()
# One node of 4 GPUs: a service with one replica that serves and two on standby, a gang that could use three workers.
LENDING = """
    node a 4 gpus memory 40000
    team red nominal 4   team blue nominal 4
    s1 red inference share 1 smem 20000 x 1..3..3 standby 2 awake 1 asleep 1,2 running a:0 a:1 a:2
"""
GANG = "g1 red training 1 gpumem 16000 x 1..1..3 running a:3"


def test_a_gang_gets_workers_on_sleeping_replicas_and_then_nothing_changes() -> None:
    world = parse(LENDING + GANG)
    (grown,) = schedule(world, RULES)
    assert isinstance(grown, Place)
    lent = [(w.rank, w.node, w.gpus, w.lender) for w in grown.workers]
    assert lent == [(1, "a", (1,), "s1"), (2, "a", (2,), "s1")]
    world = world.after([grown])
    gang = replace(world.workloads["g1"], phase=Phase.RUNNING, scaled_at=None)
    assert schedule(world.replace(changed=[gang]), RULES) == ()


def test_it_gets_no_more_than_it_can_use() -> None:
    (grown,) = schedule(parse(LENDING + GANG.replace("x 1..1..3", "x 1..1..2")), RULES)
    assert isinstance(grown, Place)
    assert [w.gpus for w in grown.workers] == [(1,)]


def test_a_device_on_which_two_replicas_sleep_is_lent_to_one_gang() -> None:
    two = LENDING.replace("share 1 smem 20000", "share 0.3 smem 5000").replace("a:0 a:1 a:2", "a:0 a:1 a:1")
    one = GANG.replace("gpumem 16000", "gpumem 8000")
    world = parse(two + one + "\n" + one.replace("g1", "g2").replace("a:3", "a:2"))
    lent = [(d.workload, [w.gpus for w in d.workers]) for d in schedule(world, RULES) if isinstance(d, Place)]
    assert lent == [("g1", [(1,)])]


def test_two_workers_share_what_the_node_has_of_cpu() -> None:
    world = LENDING.replace("memory 40000", "memory 40000 cpu 9") + GANG.replace("gpumem", "cpu 4 gpumem")
    (grown,) = schedule(parse(world), RULES)
    assert isinstance(grown, Place)
    assert [w.gpus for w in grown.workers] == [(1,)]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("gpumem 16000", "gpumem 24000", "its memory does not fit beside the model"),
        ("gpumem 16000", "", "it does not say how much memory it needs"),
        ("training 1 gpumem", "training 2 gpumem", "its workers need two GPUs"),
        ("x 1..1..3", "x 1..1..1", "it can use no more workers"),
        ("g1 red", "g1 blue", ""),
    ],
)
def test_who_may_borrow(before: str, after: str, why: str) -> None:
    places = "running a:3" if "training 2" not in after else "pending"
    world = parse(LENDING + GANG.replace(before, after).replace("running a:3", places))
    assert bool([d for d in schedule(world, RULES) if isinstance(d, Place)]) == (not why)


def test_teams_that_share_with_no_other_neither_lend_nor_borrow() -> None:
    world = parse(LENDING.replace("team blue nominal 4", "team blue nominal 4 alone") + GANG.replace("red", "blue"))
    assert schedule(world, RULES) == ()


def test_a_replica_that_fell_asleep_just_now_is_not_lent() -> None:
    world = parse(LENDING + GANG)
    service = world.workloads["s1"]
    fresh = tuple(replace(a, asleep_at=world.at - 5) if a.asleep_at else a for a in service.placement)
    assert schedule(world.replace(changed=[replace(service, placement=fresh)]), RULES) == ()


@pytest.mark.parametrize(
    ("enforcer", "is_lent"),
    [("mig", False), ("mps", False), ("dra", False), ("hami", True), ("time-slicing", True), ("weft", True)],
)
def test_where_other_software_chooses_the_device_of_a_replica_none_is_lent(enforcer: str, *, is_lent: bool) -> None:
    """The replica may be on another device than we know of, and a worker would come to somebody else's."""
    world = parse((LENDING + GANG).replace("memory 40000", f"memory 40000 by {enforcer}"))
    assert world.inventory.nodes[0].enforcer == enforcer
    assert bool(schedule(world, RULES)) == is_lent


def test_while_replicas_load_none_is_lent() -> None:
    assert schedule(parse(LENDING.replace("running a:0", "scaling a:0") + GANG), RULES) == ()


def test_what_is_lent_costs_no_quota_and_no_gpu() -> None:
    world = parse(LENDING.replace("nominal 4", "nominal 3") + GANG)
    grown = world.after(schedule(world, RULES))
    assert grown.workloads["g1"].held_milli == world.workloads["g1"].held_milli == 1000
    assert (grown.columns.gpu[IDLE, COMPUTE] == world.columns.gpu[IDLE, COMPUTE]).all()
    assert (grown.columns.gpu - world.columns.gpu)[IDLE, MEMORY].tolist() == [0, 16000, 16000, 0]
    assert (Ledger(grown).usage.total[IDLE]["red", "gpu"]) == 4000


LENT = LENDING + "g1 red training 1 gpumem 16000 x 1..1..3 lent s1 1,2 running a:3 a:1 a:2\n"


def test_no_claimant_takes_what_only_its_lender_has_a_use_for() -> None:
    gang = parse(LENT).workloads["g1"]
    assert (surplus(gang), owned(gang), staying(gang), can_shrink(gang)) == (0, [0], [0, 1, 2], False)
    assert moves(schedule(parse(LENT + "n1 red training 1 pending"), RULES)) == []


def test_when_the_replica_is_gone_the_worker_leaves_and_nothing_takes_its_place_before() -> None:
    world = parse(LENT)
    service = world.workloads["s1"]
    gone = replace(service, placement=service.placement[:2], gang=replace(service.gang, count=2))
    world = world.replace(changed=[gone])
    assert Plan(world).free[IDLE].idle.tolist() == [0]
    assert facts(schedule(world, RULES))[0] == shrink("g1", 2)
    left = world.after(schedule(world, RULES)).replace(changed=[replace(world.workloads["g1"], placement=())])
    assert Plan(left).free[IDLE].idle.tolist() == [2]


def test_when_the_replica_serves_again_the_worker_leaves() -> None:
    world = parse(LENT.replace("awake 1 asleep 1,2", "awake 2 asleep 2"))
    assert moves(schedule(world, RULES)) == [shrink("g1", 1)]


def test_new_replicas_beyond_those_that_are_to_serve_are_asleep_at_once() -> None:
    world = parse("""
        node a 4 gpus memory 40000
        team red nominal 4
        s1 red inference share 1 smem 20000 x 1..3..3 standby 2 awake 2 scaling a:0
    """)
    found = schedule(world, RULES)
    assert facts(found) == [place("s1", "a", "a")]
    placed = world.after(found).workloads["s1"].placement
    assert [a.asleep_at for a in placed] == [None, None, world.at]


# A service of higher priority that one replica more would fit only in the place of a training.
CROWDED = """
    node a 2 gpus memory 40000
    team red nominal 2
    s1 red inference share 1 smem 20000 priority 100 x 1..2..2 standby 1 awake 2 scaling a:0
    low red training 1 running a:1
"""


def test_a_replica_that_is_to_serve_preempts_and_one_that_would_only_stand_by_waits() -> None:
    assert [f for f in moves(schedule(parse(CROWDED), RULES)) if f[1] == "low"]
    found = schedule(parse(CROWDED.replace("awake 2", "awake 1")), RULES)
    assert moves(found) == []
    assert [d.workload for d in found if isinstance(d, Wait)] == ["s1"]


def test_what_waits_to_stand_by_keeps_no_other_work_of_its_team_waiting() -> None:
    world = CROWDED.replace("awake 2", "awake 1").replace("nominal 2", "nominal 2   team blue nominal 0")
    world = world.replace("low red", "low blue") + "new red training 1 pending"
    assert [f for f in moves(schedule(parse(world), RULES)) if f[1] == "low"], "blue borrows what red owns"
    assert not moves(schedule(parse(world.replace("new red training 1 pending", "")), RULES))


def test_lending_changes_no_other_decision_and_no_account() -> None:
    has_lent: list[bool] = []

    @given(worlds_with_standby())
    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(world: Snapshot) -> None:
        decisions = schedule(world, Settings(lend_after_seconds=1e9, harvest=False))
        with_lending = schedule(world, Settings(lend_after_seconds=0.0))
        lent = [d for d in with_lending if isinstance(d, Place) and any(w.lender for w in d.workers)]
        started = {d.workload for d in lent if world.workloads[d.workload].phase is Phase.QUEUED}
        has_lent.append(len(lent) > len(started))
        others = [d for d in decisions if not (isinstance(d, Wait) and d.workload in started)]
        assert [d for d in with_lending if d not in lent] == others
        after = world.after(with_lending)
        own = sum(w.ask.milli for d in lent for w in [world.workloads[d.workload]] for a in d.workers if not a.lender)
        taken = after.columns.gpu[:, COMPUTE] - world.after(decisions).columns.gpu[:, COMPUTE]
        assert taken.sum(axis=1).tolist() == [own, own]
        seats = [(a.node, a.gpus) for w in after.workloads.values() for a in w.placement if a.lender]
        assert len(seats) == len(set(seats))
        assert (after.columns.gpu[IDLE, MEMORY] <= world.inventory.gpu_capacity[MEMORY]).all()
        later = schedule(after, RULES)
        if not [d for d in later if isinstance(d, Evict) and after.workloads[d.workload].kind is Kind.INFERENCE]:
            assert not [d for d in later if isinstance(d, Shrink) and not d.by]  # nothing is lent to be taken back

    holds()
    assert sum(has_lent) >= 0.1 * len(has_lent), f"lent in {sum(has_lent)} of {len(has_lent)} worlds"
