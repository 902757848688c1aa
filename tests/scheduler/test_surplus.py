"""Elastic gangs beyond their count: they are lent what no claimant could use, and give it back first."""

from dataclasses import replace

from scheduler.cycle.schedule import schedule
from scheduler.explain.explanation import explain
from scheduler.model.decision import EvictReason
from scheduler.model.settings import Settings
from scheduler.state.session import Session
from tests.worlds import evict, moves, parse, place, shrink

RULES = Settings()


def test_it_grows_beyond_its_count_up_to_the_most_it_can_use() -> None:
    world = parse("""
        node a 8 gpus   team red nominal 8
        gang red training 1 x 1..2..6 running a a scaled 90000
    """)
    decisions = schedule(world, RULES)
    assert moves(decisions) == [place("gang", "a", "a", "a", "a")]
    assert schedule(world.after(decisions), RULES) == ()


def test_a_gang_whose_minimum_is_its_count_grows_too_and_goes_back_to_it() -> None:
    idle = parse("node a 8 gpus   team red nominal 8   gang red training 1 x 2..2..6 running a a")
    assert moves(schedule(idle, RULES)) == [place("gang", "a", "a", "a", "a")]
    wanted = parse("""
        node a 4 gpus   team red nominal 4   team blue nominal 0
        gang red training 1 x 2..2..6 running a a a a   job blue training 2 pending
    """)
    assert moves(schedule(wanted, RULES)) == [shrink("gang", 2, 3), place("job", "a", after=("gang",))]


def test_it_rests_longer_before_it_grows_beyond_its_count() -> None:
    text = "node a 8 gpus   team red nominal 8   gang red training 1 x 1..{} running a a scaled 99900"
    assert moves(schedule(parse(text.format("4")), RULES)) == [place("gang", "a", "a")]
    lent = parse(text.format("2..4"))
    assert moves(schedule(lent, RULES)) == []
    assert moves(schedule(lent.replace(at=lent.at + 200), RULES)) == [place("gang", "a", "a")]
    assert moves(schedule(lent, replace(RULES, surplus_after_seconds=100.0))) == [place("gang", "a", "a")]


def test_it_does_not_grow_if_it_is_expected_to_end_before_the_resize_has_paid() -> None:
    text = "node a 8 gpus   team red nominal 8   gang red training 1 x 1..2..4 running a a started {}"
    short = parse(text.format(99_000))
    assert moves(schedule(short, replace(RULES, rejoin_seconds=10_000.0))) == []
    assert moves(schedule(short, RULES)) == [place("gang", "a", "a")]
    said = short.replace(changed=[replace(short.workloads["gang"], expected_seconds=90_000.0)])
    assert moves(schedule(said, replace(RULES, rejoin_seconds=10_000.0))) == [place("gang", "a", "a")]


def test_it_grows_within_quota_and_what_its_team_may_borrow() -> None:
    text = """
        node a 8 gpus   team red nominal 3 borrowing {}   team blue nominal 5
        gang red training 1 x 1..2..8 running a a
    """
    assert moves(schedule(parse(text.format(0)), RULES)) == [place("gang", "a")]
    assert moves(schedule(parse(text.format(2)), RULES)) == [place("gang", "a", "a", "a")]


def test_a_team_over_its_budget_grows_nothing() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   budget red month 100 120 200000
        gang red training 1 x 1..2..4 running a a
    """)
    assert moves(schedule(world, RULES)) == []


def test_what_a_gang_holds_beyond_its_count_goes_to_any_claimant_before_all_else() -> None:
    world = parse("""
        node a 6 gpus   team red nominal 6   team blue nominal 0
        low red training 1 running a   elastic red training 1 x 1..2 running a
        gang red training 1 x 1..1..3 priority 500 firm running a a a
        high blue training 2 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 1, 2), place("high", "a", after=("gang",))]


def test_no_more_than_the_claimant_lacks_is_given_back() -> None:
    world = parse("""
        node a 8 gpus   team red nominal 8
        gang red training 1 x 1..2..8 running a a a a a a   job red training 3 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 5), place("job", "a", after=("gang",))]


def test_beyond_the_surplus_only_the_claimants_own_rules_take_workers() -> None:
    text = """
        node a 4 gpus   team red nominal 4   team {}
        gang red training 1 x 1..3..4 running a a a a   job {} training 2 pending
    """
    assert moves(schedule(parse(text.format("blue nominal 0", "blue")), RULES)) == []
    assert moves(schedule(parse(text.format("blue nominal 0", "red")), RULES)) == [
        shrink("gang", 2, 3),
        place("job", "a", after=("gang",)),
    ]


def test_workers_that_still_start_are_given_back_too() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        gang red training 1 x 1..2..4 scaling a a a a started 5   job red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 3), place("job", "a", after=("gang",))]


def test_a_gang_that_scales_to_its_count_is_left_alone() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        gang red training 1 x 1..4 scaling a a a a started 5   job red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_what_the_surplus_cannot_give_alone_is_taken_from_the_fewest_others() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   team blue nominal 3
        low red training 1 running a   gang blue training 1 x 2..2..3 running a a a
        high red training 2 priority 100 pending
    """)
    assert moves(schedule(world, RULES)) == [
        shrink("gang", 2),
        evict("low", EvictReason.PREEMPTED, "high"),
        place("high", "a", after=("gang", "low")),
    ]


def test_of_two_teams_the_one_that_holds_less_of_its_entitlement_grows_first() -> None:
    world = parse("""
        node a 7 gpus   team red nominal 4   team blue nominal 4
        x red training 2 running a
        one red training 1 x 1..2..4 running a a   two blue training 1 x 1..2..4 running a a
    """)
    assert moves(schedule(world, RULES)) == [place("two", "a")]


def test_surplus_entitles_to_nothing() -> None:
    text = """
        node a 8 gpus   team red nominal 0   team blue nominal 0
        gang red training 1 x 1..{} running a a a a a a   job blue training 4 pending
    """
    lent = Session(parse(text.format("2..6")), RULES).entitlement.shares
    owned = Session(parse(text.format("6")), RULES).entitlement.shares
    assert [lent[team, "gpu"] for team in ("red", "blue")] == [2000, 4000]
    assert [owned[team, "gpu"] for team in ("red", "blue")] == [4000, 4000]


def test_a_running_gang_says_how_many_workers_it_has_and_why_no_more() -> None:
    size = "It runs with 2 of at most 4 workers; it asked for 2, and its minimum is 1. "
    text = "node a 4 gpus   team red nominal {}   gang red training 1 x 1..2..4 {} running a a{}"
    near, gives = "close enough to its other workers", "The next round has it give workers to a workload that waits"
    why = [
        (4, "", "", "The next round gives it 2 more."),
        (4, "", " scaled 99900", "It started or changed lately, so it does not grow before 03:50:00 cluster time."),
        (4, "finishing", "", "One of its workers is done, so no more join."),
        ("2 borrowing 0", "", "", "Team red may not use more GPUs of its kind now."),
        (
            8,
            "require nvlink",
            "",
            "Where its workers are close enough to each other cannot be told, so it stays as it is.",
        ),
        (8, "", "   x red training 2 running a", f"No room of its kind is free {near}."),
        (4, "", "   x red training 3 priority 9 pending", f"{gives}, or leave."),
    ]
    for quota, more, rest, told in why:
        found = explain(parse(text.format(quota, more, rest)), "gang", RULES)
        assert (found.reason, found.message) == (None, size + told)
    full = parse("node a 4 gpus   team red nominal 4   gang red training 1 x 1..2..3 running a a a")
    assert explain(full, "gang", RULES).message.endswith("It has all that it can use.")
    fixed = parse("node a 4 gpus   team red nominal 4   gang red training 1 x 2 running a a")
    assert explain(fixed, "gang", RULES).message == "Is Running."
