"""Reclaim: nominal quota comes back from those that borrow it."""

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Reason
from scheduler.model.settings import Settings
from tests.worlds import evict, facts, messages, moves, parse, place, reasons

RECLAIMED = EvictReason.RECLAIMED


def test_reclaim_takes_only_what_is_over_quota() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 2    team blue nominal 2
        r1 red training 1 running a    r2 red training 1 running a    r3 red training 1 running a
        b1 blue training 2 pending
    """)
    decisions = schedule(world, Settings())
    assert facts(decisions) == [evict("r3", RECLAIMED, "b1"), place("b1", "a", after=("r3",))]
    assert [d.message for d in decisions if isinstance(d, Evict)] == [
        "Gives 1 GPU of borrowed quota back to team blue for [[w:b1]]."
    ]


def test_no_more_is_reclaimed_than_a_team_owns() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 2    team blue nominal 2
        r1 red training 1 x 1 running a    r2 red training 1 running a    r3 red training 1 running a
        b0 blue training 1 running a    b1 blue training 2 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"b1": Reason.FAIR_SHARE_EXCEEDED}


def test_no_team_is_brought_below_its_own_quota() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 3    team blue nominal 1
        r1 red training 4 running a    b1 blue training 1 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert messages(decisions)["b1"] == "Needs 1 GPU on one node; the best node has 0 free; 1 is lent to team red."


def test_the_cheapest_work_leaves() -> None:
    world = parse("""
        at 10000
        node a 4 gpus
        team red nominal 2    team blue nominal 2
        r1 red training 1 running a started 1000 checkpointed 9000
        r2 red training 1 running a started 1000 checkpointed 9900
        r3 red training 1 running a started 1000
        r4 red training 1 running a started 9500
        b1 blue training 1 pending
    """)
    assert moves(schedule(world, Settings()))[0] == evict("r2", RECLAIMED, "b1")


def test_more_gpus_lose_more_work() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 0    team blue nominal 4
        r1 red training 2 running a    r2 red training 1 running a    r3 red training 1 running a
        b1 blue training 1 pending
    """)
    assert moves(schedule(world, Settings()))[0] == evict("r3", RECLAIMED, "b1")


def test_victims_are_looked_for_where_they_make_room_together() -> None:
    world = parse("""
        node a,b 2 gpus
        team red nominal 0    team blue nominal 4
        r1 red training 1 running a started 90000   r2 red training 1 running b started 80000
        r3 red training 1 running b started 85000   r4 red training 1 running a started 1000
        b1 blue training 2 pending
    """)
    assert moves(schedule(world, Settings())) == [
        evict("r3", RECLAIMED, "b1"),
        evict("r2", RECLAIMED, "b1"),
        place("b1", "b", after=("r2", "r3")),
    ]


def test_no_victim_is_taken_that_is_not_needed() -> None:
    # r1 is the cheapest, but r2's node alone makes the room.
    world = parse("""
        node a 1 gpus   node b 2 gpus
        team red nominal 0    team blue nominal 3
        r1 red training 1 running a started 99000    r2 red training 2 running b
        b1 blue training 2 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("r2", RECLAIMED, "b1"), place("b1", "b", after=("r2",))]


def test_work_that_may_not_be_preempted_is_not_reclaimed() -> None:
    world = parse("""
        node a 2 gpus
        team red nominal 0    team blue nominal 2
        r1 red training 2 firm running a    b1 blue training 1 pending
    """)
    assert moves(schedule(world, Settings())) == []


def test_work_that_just_started_is_left_alone() -> None:
    text = """
        at 1000
        node a 1 gpus
        team red nominal 0    team blue nominal 1
        r1 red training 1 running a started 950    b1 blue training 1 pending
    """
    assert moves(schedule(parse(text), Settings(min_runtime_seconds=60))) == []
    assert moves(schedule(parse(text), Settings(min_runtime_seconds=50)))[0] == evict("r1", RECLAIMED, "b1")


def test_work_that_is_starting_is_left_alone() -> None:
    world = parse("""
        node a 1 gpus
        team red nominal 0    team blue nominal 1
        r1 red training 1 starting a    b1 blue training 1 pending
    """)
    assert moves(schedule(world, Settings())) == []


def test_work_that_was_preempted_often_enough_is_left_alone() -> None:
    text = """
        at 100000
        node a 1 gpus
        team red nominal 0    team blue nominal 1
        r1 red training 1 running a preempted 20000 by x preempted 30000 by y preempted 40000 by z
        b1 blue training 1 pending
    """
    assert moves(schedule(parse(text), Settings())) == []
    assert moves(schedule(parse(text), Settings(preemption_window_seconds=65000)))[0] == evict("r1", RECLAIMED, "b1")


def test_nobody_makes_those_leave_who_made_it_leave() -> None:
    text = """
        at 100000
        node a 1 gpus
        team red nominal 0    team blue nominal 1
        r1 red training 1 running a    b1 blue training 1 preempted 90000 by r1 pending
    """
    assert moves(schedule(parse(text), Settings())) == []
    assert moves(schedule(parse(text), Settings(preemption_window_seconds=5000)))[0] == evict("r1", RECLAIMED, "b1")


def test_what_is_leaving_already_is_waited_for_and_nobody_else_leaves() -> None:
    world = parse("""
        node a 2 gpus
        team red nominal 0    team blue nominal 2
        r1 red training 1 leaving a    r2 red training 1 running a    b1 blue training 1 pending
    """)
    assert moves(schedule(world, Settings())) == [place("b1", "a", after=("r1",))]


def test_freed_room_is_the_claimants_own() -> None:
    world = parse("""
        node a 2 gpus
        team red nominal 0    team blue nominal 2    team green nominal 0
        r1 red training 1 running a    r2 red training 1 running a
        b1 blue training 2 pending    g1 green training 1 pending
    """)
    after = world.after(schedule(world, Settings()))
    assert after.workloads["b1"].phase == "Reserved"
    gone = after.replace(gone=("r1", "r2"))
    assert moves(schedule(gone, Settings())) == []


def test_a_gang_is_reclaimed_for_whole_or_not_at_all() -> None:
    world = parse("""
        node a,b 2 gpus
        team red nominal 1    team blue nominal 3
        r1 red training 1 running a    r2 red training 1 running a    r3 red training 1 running b
        r4 red training 1 firm running b
        b1 blue training 1 x 3 pending    b2 blue training 1 x 4 pending
    """)
    decisions = schedule(world, Settings())
    assert sorted(moves(decisions))[:3] == [evict(r, RECLAIMED, "b1") for r in ("r1", "r2", "r3")]
    assert reasons(decisions)["b2"] == Reason.FAIR_SHARE_EXCEEDED


def test_siblings_reclaim_from_each_other_inside_their_parent() -> None:
    world = parse("""
        node a 4 gpus
        team research nominal 4    team nlp nominal 2 parent research    team vision nominal 2 parent research
        n1 nlp training 1 x 1 running a    n2 nlp training 1 running a    n3 nlp training 1 running a
        n4 nlp training 1 running a    v1 vision training 2 pending
    """)
    assert len([f for f in moves(schedule(world, Settings())) if f[0] == "evict"]) == 2


def test_a_gang_grows_beyond_its_minimum_only_within_its_teams_quota_when_it_reclaims() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1    team blue nominal 3
        r1 red training 4 running a    b1 blue training 1 x 2..4 pending
        r0 red training 1 pending
    """)
    assert moves(schedule(world, Settings())) == []
    world = parse("""
        node a 4 gpus
        team red nominal 0    team blue nominal 3
        r1 red training 4 running a    b1 blue training 1 x 2..4 pending
    """)
    assert moves(schedule(world, Settings()))[-1] == place("b1", "a", "a", "a", after=("r1",))


def test_a_parent_whose_row_says_less_than_its_children_own_does_not_keep_them_from_it() -> None:
    world = parse("""
        node a,b 4 gpus
        team research nominal 1
        team vision nominal 4  parent research
        team nlp nominal 4  parent research
        n1 nlp training 4 running a    n2 nlp training 4 running b
        v1 vision training 4 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("n1", RECLAIMED, "v1"), place("v1", "a", after=("n1",))]


def test_a_team_takes_what_it_owns_back_from_its_parents_own_work() -> None:
    world = parse("""
        node a 4 gpus
        team research nominal 4
        team nlp nominal 2 parent research    team vision nominal 2 parent research
        r1 research training 1 running a    v1 vision training 2 running a    n1 nlp training 1 running a
        n2 nlp training 1 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("r1", RECLAIMED, "n2"), place("n2", "a", after=("r1",))]


def test_what_no_child_owns_is_the_parents_own() -> None:
    world = parse("""
        node a 4 gpus
        team research nominal 4
        team nlp nominal 2 parent research
        r1 research training 1 running a    r2 research training 1 running a
        team vision nominal 0
        o1 vision training 2 running a
        n1 nlp training 1 pending
    """)
    assert [move[1] for move in moves(schedule(world, Settings()))] == ["o1", "n1"]


@pytest.mark.parametrize(
    ("most", "found"), [(3, []), (4, [evict("c1", RECLAIMED, "b1"), place("b1", "c", after=("c1",))])]
)
def test_each_set_of_victims_that_is_tried_counts(most: int, found: list[object]) -> None:
    # Red lends 3. On a and on b, and on a with all others after them, one leaves and the next may not; c is dearest.
    world = parse("""
        node a,b 4 gpus   node c 3 gpus   team red nominal 8   team blue nominal 3
        a1 red training 2 running a started 99900   a2 red training 2 running a started 99900
        b2 red training 2 running b started 99800   b3 red training 2 running b started 99800
        c1 red training 3 running c started 99000   b1 blue training 3 pending
    """)
    assert moves(schedule(world, Settings(max_victims=most))) == found


def test_a_gang_that_is_on_the_cheapest_node_only_in_part_leaves_it() -> None:
    world = parse("""
        node a,b 2 gpus   node c 1 gpus   team red   team blue nominal 5
        x red training 1 running a started 99900   g red training 1 x 2 running a c started 99000
        y red training 1 running b started 98100   z red training 1 running b started 98000
        b1 blue training 2 pending
    """)
    assert {move[1] for move in moves(schedule(world, Settings()))} == {"x", "g", "b1"}


def test_room_is_made_on_one_gpu_model_though_the_other_could_never_have_it() -> None:
    world = parse("""
        node a 1 gpus model t4   node b 1 gpus model h100   team red nominal 0   team blue nominal 1
        firm red training 1 firm running a   r1 red training 1 running b
        b1 blue training 1 models t4,h100 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("r1", RECLAIMED, "b1"), place("b1", "b", after=("r1",))]


def test_who_loses_least_leaves_though_another_node_were_the_better_fit() -> None:
    world = parse("""
        node a 2 gpus   node b 1 gpus   team red nominal 0   team blue nominal 1
        a1 red training 1 running a started 99900   a2 red training 1 running a started 1000
        b2 red training 1 running b started 2000   b1 blue training 1 pending
    """)
    assert moves(schedule(world, Settings()))[0] == evict("a1", RECLAIMED, "b1")


def test_one_who_may_not_leave_is_passed_over() -> None:
    # Red lends 2: once x has left, y is more than the rest of it.
    world = parse("""
        node a 4 gpus   team red nominal 2   team blue nominal 2
        x red training 1 running a started 99900   y red training 2 running a started 99900
        z red training 1 running a started 99000   b1 blue training 2 pending
    """)
    assert {move[1] for move in moves(schedule(world, Settings()))} == {"x", "z", "b1"}


def test_a_model_that_takes_only_part_of_a_gang_does_not_change_who_leaves_on_another() -> None:
    world = parse("""
        node d 2 gpus model t4   node a,b 2 gpus model h100   node c 1 gpus model h100
        team red   team blue nominal 5
        f red training 1 firm running d   v red training 1 running d started 99900
        x red training 1 running a started 99890   g red training 1 x 2 running a c started 99000
        y red training 1 running b started 98100   z red training 1 running b started 98000
        b1 blue training 1 x 2 models t4,h100 require node pending
    """)
    assert {move[1] for move in moves(schedule(world, Settings()))} == {"x", "g", "b1"}
