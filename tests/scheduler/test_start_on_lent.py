"""Gangs that wait start on the GPUs of sleeping replicas: which may, on what, and how they leave."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place, Wait
from scheduler.model.settings import Settings
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY, Snapshot
from scheduler.model.workload import ACTIVE, Kind, Phase, Workload
from scheduler.preemption.borrowed import given_back
from tests.strategies import worlds_with_standby
from tests.worlds import evict, moves, parse, place

RULES = Settings()
# A full cluster but for two replicas that sleep, on a:1 and a:2; `f1` is there so that nothing else is free.
FULL = """
    node a 4 gpus memory 40000
    team red nominal 8   team blue nominal 4
    s1 red inference share 1 smem 20000 x 1..3..3 standby 2 awake 1 asleep 1,2 running a:0 a:1 a:2
    f1 red training 1 running a:3
"""
WAITS = "g1 red training 1 gpumem 16000 saves 600 x 2..2..4 pending"


def started(world: str, rules: Settings = RULES) -> list[tuple[int, tuple[int, ...], str]]:
    """Of each worker that g1 gets: its rank, its devices and its lender."""
    placed = [d for d in schedule(parse(world), rules) if isinstance(d, Place) and d.workload == "g1"]
    return [(w.rank, w.gpus, w.lender) for one in placed for w in one.workers]


def test_a_gang_that_waits_starts_on_the_gpus_of_sleeping_replicas() -> None:
    assert started(FULL + WAITS) == [(0, (1,), "s1"), (1, (2,), "s1")]
    after = parse(FULL + WAITS).after(schedule(parse(FULL + WAITS), RULES))
    gang = after.workloads["g1"]
    assert (gang.phase, gang.held_milli) == (Phase.ADMITTED, 0)
    assert schedule(after, RULES) == ()


def test_it_gets_no_more_than_its_count_and_no_less_than_its_minimum() -> None:
    assert len(started(FULL + WAITS.replace("x 2..2..4", "x 1..1..4"))) == 1
    assert len(started(FULL + WAITS.replace("x 2..2..4", "x 1..4..4"))) == 2
    assert started(FULL + WAITS.replace("x 2..2..4", "x 3..3..4")) == []


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("saves 600", "", "it could not go on later where it was"),
        ("training 1", "training 1 firm", "it may not be made to leave"),
        ("gpumem 16000", "", "it does not say how much memory it needs"),
        ("gpumem 16000", "gpumem 24000", "its memory does not fit beside the model"),
        ("x 2..2..4", "x 2..2..4 role ps*1/cpu=1", "its role members need places of their own"),
        ("x 2..2..4", "x 2..2..4 unmet u1", "it waits for another workload"),
        ("x 2..2..4", "x 2..2..4 preempted 99000 by x preempted 99100 by x preempted 99200 by x", "it left too often"),
        ("x 2..2..4", "x 2..2..4 require nvlink", "how near lent GPUs are is not looked at"),
        ("pending", "held", "its user holds it"),
        ("g1 red", "g1 blue", ""),
        ("x 2..2..4", "x 2..2..4 require rack", ""),
    ],
)
def test_which_may_start_so(before: str, after: str, why: str) -> None:
    assert bool(started(FULL + WAITS.replace(before, after))) == (not why)


def test_what_is_free_comes_first_and_the_gang_meets_there() -> None:
    free = FULL.replace("f1 red training 1 running a:3", "")
    assert started(free + WAITS.replace("x 2..2..4", "x 3..3..4")) == [
        (0, (3,), ""), (1, (1,), "s1"), (2, (2,), "s1"),
    ]  # fmt: skip


def test_what_another_could_use_is_not_taken_for_it() -> None:
    """The free GPU is kept for n1, which only waits for its turn: its round is full before."""
    free = FULL.replace("f1 red training 1 running a:3", "n1 red training 1 pending")
    world = free + WAITS.replace("x 2..2..4", "x 3..3..4")
    assert moves(schedule(parse(world), RULES)) == [place("n1", "a")]


def test_quota_bounds_what_it_gets_of_its_own_and_not_what_is_lent() -> None:
    free = FULL.replace("f1 red training 1 running a:3", "") + WAITS
    assert [lender for *_, lender in started(free.replace("red nominal 8", "red nominal 4 borrowing 0"))] == ["", "s1"]
    assert [lender for *_, lender in started(free.replace("red nominal 8", "red nominal 3 borrowing 0"))] == [
        "s1",
        "s1",
    ]


def test_workers_are_as_near_each_other_as_the_gang_asks() -> None:
    two = """
        node a 2 gpus memory 40000 rack r1   node b 2 gpus memory 40000 rack r2
        team red nominal 8
        s1 red inference share 1 smem 20000 x 1..3..3 standby 2 awake 1 asleep 1,2 running a:0 a:1 b:0
        f1 red training 1 running b:1
    """
    assert len(started(two + WAITS)) == 2
    assert started(two + WAITS + " require rack") == []


def test_the_earlier_of_two_starts() -> None:
    other = WAITS.replace("g1", "g2")
    found = moves(schedule(parse(FULL + other + "   " + WAITS), RULES))
    assert found == [place("g2", "a", "a")]


def test_one_that_started_is_not_told_why_it_waits() -> None:
    told = [d.workload for d in schedule(parse(FULL + WAITS + "   n1 red training 1 pending"), RULES)
            if isinstance(d, Wait)]  # fmt: skip
    assert told == ["n1"]


ON_LENT = FULL.replace("f1 red training 1 running a:3", "") + (
    "g1 red training 1 gpumem 16000 saves 600 x 2..3..3 lent s1 1,2 running a:3 a:1 a:2\n"
)


def test_when_a_lender_is_gone_a_gang_gives_what_it_can_spare() -> None:
    served = ON_LENT.replace("awake 1 asleep 1,2", "awake 2 asleep 2")
    assert moves(schedule(parse(served), RULES)) == [("shrink", "g1", "1")]


def test_a_gang_that_would_be_less_than_its_minimum_leaves_as_a_whole() -> None:
    served = ON_LENT.replace("awake 1 asleep 1,2", "awake 3")
    world = parse(served)
    (leaves,) = schedule(world, RULES)
    assert isinstance(leaves, Evict)
    assert (leaves.workload, leaves.reason, leaves.by) == ("g1", EvictReason.TAKEN_BACK, "")
    assert leaves.message == (
        "Saves its work and leaves: [[w:s1]] has left the GPU that it lent, or uses it itself, "
        "and it runs with no fewer than 2 workers."
    )
    gang = world.after([leaves]).workloads["g1"]
    assert (gang.phase, gang.failures, len(gang.preempted_at)) == (Phase.CHECKPOINTING, 0, 1)


def test_a_gang_leaves_as_a_whole_with_the_worker_at_which_it_meets() -> None:
    meets = ON_LENT.replace("x 2..3..3 lent s1 1,2 running a:3 a:1 a:2", "x 1..2..3 lent s1 0,1 running a:1 a:2")
    assert moves(schedule(parse(meets.replace("awake 1 asleep 1,2", "awake 2 asleep 1")), RULES)) == [
        ("shrink", "g1", "1")
    ]
    found = moves(schedule(parse(meets.replace("awake 1 asleep 1,2", "awake 2 asleep 2")), RULES))
    assert found == [evict("g1", EvictReason.TAKEN_BACK, "")]


def test_what_a_service_takes_back_makes_it_no_preemptor() -> None:
    """So the two may still push each other out for other reasons, and only the number of times is counted."""
    world = parse(ON_LENT)
    gang = world.workloads["g1"]
    leaves = given_back(gang, [1, 2], "s1", world.at)
    assert (leaves.by, world.after([leaves]).workloads["g1"].preempted_by) == ("s1", ("",))


def test_what_a_gang_that_waited_got_is_not_lent_again_in_the_same_round() -> None:
    world = parse("""
        node a 4 gpus memory 40000
        team red nominal 8
        s1 red inference share 1 smem 20000 x 1..2..2 standby 1 awake 1 asleep 1 running a:0 a:1
        f1 red training 1 running a:3
        g1 red training 1 gpumem 8000 x 1..1..3 running a:2
        g2 red training 1 gpumem 8000 saves 600 pending
    """)
    found = [
        (d.workload, w.gpus) for d in schedule(world, RULES) if isinstance(d, Place) for w in d.workers if w.lender
    ]
    assert found == [("g2", (1,))]


def test_a_start_on_lent_gpus_is_whole_fits_and_takes_no_account_of_what_is_lent() -> None:
    has_started: list[bool] = []

    @given(worlds_with_standby())
    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    def holds(world: Snapshot) -> None:
        ready = world.replace(changed=[_ready(w) for w in world.workloads.values()])
        decisions = schedule(ready, Settings(lend_after_seconds=0.0))
        placed = [d for d in decisions if isinstance(d, Place) and any(w.lender for w in d.workers)]
        fresh = [d for d in placed if ready.workloads[d.workload].phase is Phase.QUEUED]
        has_started.append(bool(fresh))
        after = ready.after(decisions)
        for one in fresh:
            gang = after.workloads[one.workload]
            assert gang.gang.min <= len(one.workers) <= gang.gang.count
            assert gang.preemptible and gang.checkpoint_interval
            assert not one.after
        without = schedule(ready, Settings(lend_after_seconds=1e9, harvest=False))
        others = [d for d in decisions if not isinstance(d, Wait) and d not in placed]
        assert others == [d for d in without if not isinstance(d, Wait)]
        seats = [(a.node, a.gpus) for w in after.workloads.values() for a in w.placement if a.lender]
        assert len(seats) == len(set(seats))
        assert (after.columns.gpu[IDLE, MEMORY] <= ready.inventory.gpu_capacity[MEMORY]).all()
        assert (after.columns.gpu[IDLE, COMPUTE] <= ready.inventory.gpu_capacity[COMPUTE]).all()
        assert not [d for d in schedule(after, RULES) if isinstance(d, Evict) and d.reason is EvictReason.TAKEN_BACK]

    holds()
    assert sum(has_started) >= 0.1 * len(has_started), f"started in {sum(has_started)} of {len(has_started)} worlds"


def _ready(w: Workload) -> Workload:
    """Services sleep but for one replica; trainings that wait could start beside a model."""
    if w.kind is Kind.INFERENCE:
        placement = tuple(replace(a, asleep_at=0.0) if a.rank else a for a in w.placement)
        phase = Phase.RUNNING if w.phase in ACTIVE else w.phase
        return replace(w, awake=1, standby=w.gang.max, placement=placement, phase=phase)
    if w.kind is Kind.TRAINING and w.phase is Phase.QUEUED and w.ask.gpus:
        ask = replace(w.ask, gpus=1, gpu_memory=1)
        return replace(w, ask=ask, checkpoint_interval=600.0, roles=(), unmet=(), not_before=None, preemptible=True)
    return w
