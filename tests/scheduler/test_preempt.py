"""Preempt: higher priority takes the place of its own team's lower work."""

import pytest

from scheduler.actions.preempt import preempt
from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Reason
from scheduler.model.settings import Settings
from scheduler.state.session import Session
from tests.worlds import evict, facts, moves, parse, place, reasons, shrink

PREEMPTED = EvictReason.PREEMPTED


def test_higher_priority_preempts_lower_of_its_team() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        low red training 1 running a   high red training 1 priority 100 pending
    """)
    decisions = schedule(world, Settings())
    assert facts(decisions) == [evict("low", PREEMPTED, "high"), place("high", "a", after=("low",))]
    assert [d.message for d in decisions if isinstance(d, Evict)] == [
        "Makes room for [[w:high]] (priority 100, this one has 0)."
    ]


def test_equal_priority_preempts_nobody() -> None:
    world = parse("node a 1 gpus   team red nominal 1   x red training 1 running a   y red training 1 pending")
    assert moves(schedule(world, Settings())) == []


def test_a_service_at_risk_takes_the_place_of_its_teams_trainings_whatever_their_priority() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        chat red inference 1 x 1..2 late running a:0   train red training 1 priority 100 running a:1
    """)
    calm = parse("""
        node a 2 gpus   team red nominal 2
        chat red inference 1 x 1..2 running a:0   train red training 1 priority 100 running a:1
    """)
    decisions = schedule(world, Settings())
    assert [d for d in facts(decisions) if d[0] == "evict"] == [evict("train", PREEMPTED, "chat")]
    assert [d.message for d in decisions if isinstance(d, Evict)] == [
        "Makes room for [[w:chat]], which is at risk of missing its objective."
    ]
    assert moves(schedule(calm, Settings())) == []


def test_for_a_service_at_risk_elastic_trainings_give_workers_before_any_leaves() -> None:
    world = parse("""
        node a 3 gpus   team red nominal 3
        chat red inference 1 x 1..2 late running a:0   train red training 1 x 1..2 priority 100 running a:1 a:2
    """)
    assert moves(schedule(world, Settings())) == [shrink("train", 1), place("chat", "a", after=("train",))]


def test_for_a_service_at_risk_no_other_service_or_notebook_leaves_nor_another_teams_work() -> None:
    for other in (
        "book red notebook 1",
        "web red inference 1",
        "x red training 1 firm",
        "x blue training 1",
    ):
        world = parse(f"""
            node a 2 gpus   team red nominal 1   team blue nominal 1
            chat red inference 1 x 1..2 late running a:0   {other} running a:1
        """)
        assert moves(schedule(world, Settings())) == []


def test_a_service_at_risk_is_not_held_back_by_what_its_team_was_refused_before_it() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2 borrowing 0
        web red inference 1 x 1..2 running a:0   chat red inference 1 x 1..2 late pending
        train red training 1 priority 100 running a:1
    """)
    assert evict("train", PREEMPTED, "chat") in facts(schedule(world, Settings()))


def test_priority_gained_by_waiting_preempts_nobody() -> None:
    world = parse("""
        at 900000
        node a 1 gpus   team red nominal 1
        x red training 1 priority 10 running a   old red training 1 since 0 pending
    """)
    assert moves(schedule(world, Settings())) == []


def test_priority_counts_only_within_a_team() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 1   team blue nominal 1
        x red training 1 running a   y blue training 1 firm running a
        b1 blue training 1 priority 500 pending
    """)
    assert moves(schedule(world, Settings())) == []


def test_preemption_frees_quota_as_well_as_room() -> None:
    world = parse("""
        node a 1 gpus cpu 2   node b 1 gpus   team red nominal 1 borrowing 0
        low red training 1 running a   high red training 1 cpu 4 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [
        evict("low", PREEMPTED, "high"),
        place("high", "b", after=("low",)),
    ]


def test_no_more_leave_than_must_when_both_room_and_quota_are_short() -> None:
    world = parse("""
        node a 2 gpus   node b 1 gpus   team red nominal 3 borrowing 0
        x red training 1 running a started 50000   y red training 1 running a started 1000
        z red training 1 running b started 90000
        high red training 2 priority 100 pending
    """)
    assert sorted(f[1] for f in moves(schedule(world, Settings())) if f[0] == "evict") == ["x", "y"]


def test_a_claimant_that_would_not_fit_anyway_makes_nobody_leave() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        x red training 1 running a   y red training 1 priority 100 running a:1
        high red training 2 priority 100 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"high": Reason.WAITING_FOR_CAPACITY}


def test_a_borrower_gives_back_before_anybody_of_the_own_team_leaves_though_an_elastic_gang_is_asked_first() -> None:
    """The gang's worker is too small to help, so what others may do is looked at; but nobody leaves meanwhile."""
    world = parse("""
        node a 2 gpus   node b 2 gpus   node c 1 gpus   team red nominal 5   team blue nominal 0
        low red training 2 running a   job blue training 2 running b   gang red training share 0.5 x 1..2 firm running c
        high red training 2 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [
        evict("job", EvictReason.RECLAIMED, "high"),
        place("high", "b", after=("job",)),
    ]


@pytest.mark.parametrize(("gpus", "most"), [(50, 51), (40, 41), (30, 33)])
def test_a_search_tries_few_more_victims_than_have_to_leave(gpus: int, most: int) -> None:
    """Told by changes of the plan: each tried one leaves and is brought back, those needed leave again; all is undone
    and then decided.
    """
    small = [f"x{i} red training 1 running a started 90000" for i in range(64)]
    lines = ["node a 64 gpus   team red nominal 64", *small, f"high red training {gpus} priority 100 pending"]
    world = parse("\n".join(lines))
    session = Session(world, Settings())
    assert preempt(session, world.workloads["high"])
    assert session.plan.swaps <= 2 * (2 * most + gpus) + gpus + 1


def test_two_claimants_do_not_share_a_victim() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        x red training 1 running a   y red training 1 running a
        h1 red training 1 priority 100 pending   h2 red training 1 priority 100 pending
    """)
    placed = [f for f in moves(schedule(world, Settings())) if f[0] == "place"]
    assert sorted(f[4] for f in placed) == ["x", "y"]


def test_work_placed_in_this_round_is_nobodys_victim() -> None:
    world = parse("""
        at 400000
        node a 1 gpus   team red nominal 1
        old red training 1 priority 60 since 0 pending   new red training 1 cpu 1 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [place("old", "a")]


def test_a_preempting_gang_is_kept_close_as_it_requires() -> None:
    world = parse("""
        node a1,a2 2 gpus rack a   node b1,b2 2 gpus rack b   team red nominal 8
        w red training 2 running a1 started 99000   x red training 2 priority 100 running a2
        y red training 2 running b1 started 90000   z red training 2 running b2 started 1000
        high red training 1 x 4 require rack priority 100 pending
    """)
    assert sorted(f[1] for f in moves(schedule(world, Settings())) if f[0] == "evict") == ["y", "z"]


def test_work_without_gpus_preempts_for_cores() -> None:
    world = parse("""
        cpu-node c cpu 4   team red
        low red training cpu 3 running c   high red training cpu 2 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("low", PREEMPTED, "high"), place("high", "c", after=("low",))]


def test_a_node_that_came_back_with_fewer_gpus_stops_no_round() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        x red training 4 running a:0,1,2,3   high red training 2 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("x", PREEMPTED, "high"), place("high", "a", after=("x",))]


def test_a_share_preempts_a_share() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        n1 red notebook share 0.6 running a   n2 red notebook share 0.4 running a
        high red notebook share 0.5 priority 100 pending
    """)
    assert moves(schedule(world, Settings())) == [evict("n1", PREEMPTED, "high"), place("high", "a", after=("n1",))]


@pytest.mark.parametrize(("most", "starts"), [(0, False), (1, True)])
def test_no_more_sets_of_victims_are_tried_than_the_setting_allows(most: int, starts: bool) -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        low red training 1 running a   high red training 1 priority 100 pending
    """)
    decisions = schedule(world, Settings(max_victims=most))
    assert (moves(decisions) != []) is starts
    assert ("high" in reasons(decisions)) is not starts
