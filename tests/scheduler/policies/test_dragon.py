"""DRAGON's rules: thirty seconds, shrink to the minimum, one start a pass, growth; and the serving queue."""

from scheduler.model.decision import Reason
from scheduler.model.settings import Settings
from scheduler.policies import decide
from tests.worlds import moves, parse, place, reasons

DRAGON, EDRAGON = Settings(policy="dragon"), Settings(policy="edragon")
ELASTIC = """
    at 1000
    node a,b 4 gpus
    team red
    e1 red training 1 x 2..6 running a a a b b b started 100
    r1 red training 1 running a started 100
    r2 red training 1 running b started 100
"""


def test_a_job_that_waits_thirty_seconds_makes_an_elastic_one_shrink_lonely_workers_first() -> None:
    fresh = parse(ELASTIC + "j1 red training 2 since 980")
    assert moves(decide(fresh, DRAGON)) == []
    waited = parse(ELASTIC + "j1 red training 2 since 970")
    # Workers 3..5 are not on the node of worker 0: the newest of them go first.
    assert moves(decide(waited, DRAGON)) == [("shrink", "e1", "4", "5")]


def test_nothing_shrinks_twice_for_one_job_while_the_workers_leave() -> None:
    world = parse(ELASTIC + "j1 red training 2 since 970")
    assert moves(decide(world.after(decide(world, DRAGON)), DRAGON)) == []


def test_nothing_shrinks_if_not_even_the_minimum_of_all_would_help() -> None:
    world = parse(ELASTIC + "j1 red training 4 x 2 since 100\n    j2 red training 1 since 990")
    decisions = decide(world, DRAGON)
    assert moves(decisions) == []
    assert reasons(decisions)["j2"] is Reason.BEHIND_HIGHER_PRIORITY


def test_one_job_starts_a_pass_and_those_that_do_not_fit_are_skipped() -> None:
    world = parse("""
        at 1000
        node a 4 gpus
        team red
        big red training 1 x 9..9 since 990
        huge red training 4 x 2 since 991
        j1 red training 1 since 992
        j2 red training 1 since 993
    """)
    assert moves(decide(world, DRAGON)) == [place("j1", "a")]


def test_a_job_starts_with_as_many_workers_as_fit_and_at_least_its_minimum() -> None:
    world = parse("""
        at 1000
        node a 4 gpus
        team red
        r1 red training 1 running a started 990
        j1 red training 1 x 2..4 since 995
    """)
    assert moves(decide(world, DRAGON)) == [place("j1", "a", "a", "a")]


def test_running_jobs_grow_to_their_maximum_a_minute_after_the_last_action() -> None:
    world = """
        at {at}
        node a 4 gpus
        team red
        e1 red training 1 x 1..2..4 running a a started 940
    """
    assert moves(decide(parse(world.format(at=999)), DRAGON)) == []
    assert moves(decide(parse(world.format(at=1000)), DRAGON)) == [place("e1", "a", "a")]


def test_an_urgent_share_makes_room_and_an_ordinary_one_waits() -> None:
    world = parse(ELASTIC + "n1 red notebook share 0.5 since 999 priority 300")
    assert moves(decide(world, DRAGON)) == [("shrink", "e1", "5")]
    world = parse(ELASTIC + "n1 red notebook share 0.5 since 999 priority 200")
    assert moves(decide(world, DRAGON)) == []


def test_the_serving_queue_goes_first_and_ends_the_pass() -> None:
    world = parse(ELASTIC + "j1 red training 1 since 100\n    web red inference 1 since 999")
    assert moves(decide(world, EDRAGON)) == [("shrink", "e1", "5")]
    # In dragon it is a pod like any other: the room is made for the job that waits.
    assert moves(decide(world, DRAGON)) == [("shrink", "e1", "5")]
    free = parse("""
        at 1000
        node a 4 gpus
        team red
        j1 red training 1 since 100
        web red inference 1 since 999
    """)
    assert moves(decide(free, EDRAGON)) == [place("web", "a")]
    assert moves(decide(free, DRAGON)) == [place("web", "a"), place("j1", "a")]


def test_a_service_without_room_holds_trainings_back_for_a_while_only() -> None:
    text = """
        at 1000
        node a 4 gpus
        team red
        r1 red training 3 running a started 10
        web red inference 2 since {since}
        j1 red training 1 since 999
    """
    assert moves(decide(parse(text.format(since=900)), EDRAGON)) == []
    assert moves(decide(parse(text.format(since=400)), EDRAGON)) == [place("j1", "a")]
