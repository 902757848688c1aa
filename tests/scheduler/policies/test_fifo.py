"""First come, first served: strict and with skipping."""

from dataclasses import replace

from scheduler.model.decision import Reason
from scheduler.model.demand import demand_of
from scheduler.model.settings import Settings
from scheduler.model.workload import ResourceRequest
from scheduler.policies import decide
from tests.worlds import messages, moves, parse, place, reasons

QUEUE = """
    node a 4 gpus
    team red nominal 4   team blue
    b1 red training 3 running a
    big red training 2 since 100
    small blue training 1 since 200
    gated red training 1 since 10 unmet x
"""


def test_strict_order_lets_nobody_overtake_the_first_that_does_not_fit() -> None:
    decisions = decide(parse(QUEUE), Settings(policy="fifo"))
    assert moves(decisions) == []
    assert reasons(decisions)["small"] is Reason.BEHIND_HIGHER_PRIORITY
    assert messages(decisions)["small"] == "Behind [[w:big]]: the policy starts workloads strictly in order."


def test_who_could_never_start_or_is_gated_stops_nobody_under_strict_order() -> None:
    world = parse("""
        node a 4 gpus
        team red
        huge red training 1 x 9
        gated red training 1 unmet x
        small red training 1
    """)
    assert moves(decide(world, Settings(policy="fifo"))) == [place("small", "a")]


def test_a_running_service_that_wants_more_replicas_stops_nobody_under_strict_order() -> None:
    world = parse("""
        node a 4 gpus
        team red
        web red inference 2 x 2 running a:0,1
        hold red training 1 running a:2
        small red training 1
    """)
    decisions = decide(world, Settings(policy="fifo"))
    assert moves(decisions) == [place("small", "a")]


def test_best_fit_skips_who_does_not_fit() -> None:
    decisions = decide(parse(QUEUE), Settings(policy="best-fit"))
    assert moves(decisions) == [place("small", "a")]
    assert reasons(decisions)["big"] is Reason.WAITING_FOR_CAPACITY


def test_best_fit_takes_the_place_that_it_leaves_fullest() -> None:
    world = parse("""
        node a,b 4 gpus
        team red
        r1 red training 3 running b
        j1 red training 1
    """)
    assert moves(decide(world, Settings(policy="best-fit"))) == [place("j1", "b")]


def test_order_is_of_submission_for_all_teams_together() -> None:
    world = parse("""
        node a 1 gpus
        team red nominal 0   team blue nominal 1
        first red training 1
        second blue training 1 priority 100
    """)
    assert moves(decide(world, Settings(policy="fifo"))) == [place("first", "a")]


def test_a_quota_s_borrowing_limit_holds_under_every_order() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 1 borrowing 0
        r1 red training 1
        r2 red training 1
    """)
    assert moves(decide(world, Settings(policy="best-fit"))) == [place("r1", "a")]


def test_fgd_places_where_the_demand_seen_is_hurt_least() -> None:
    """Best fit would fill b; under a demand of whole-node jobs and 2-GPU jobs, a's odd GPU is of no use to anybody."""
    world = parse("""
        node a,b 4 gpus
        team red nominal 8
        r1 red training 1 running a
        r2 red training 2 running b
        j1 red training 1
    """)
    known = replace(world, demand=demand_of({ResourceRequest(gpus=2): 90, ResourceRequest(gpus=4): 10}, {}))
    assert moves(decide(world, Settings(policy="best-fit"))) == [place("j1", "b")]
    assert moves(decide(known, Settings(policy="fgd"))) == [place("j1", "a")]
