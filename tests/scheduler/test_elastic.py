"""Elastic gangs: they shrink to their minimum before anybody has to leave, and grow again when nobody waits."""

from dataclasses import replace

from scheduler.cycle.schedule import schedule
from scheduler.explain.explanation import explain
from scheduler.model.decision import EvictReason, Reason, Shrink
from scheduler.model.settings import Settings
from scheduler.state.session import Session
from tests.worlds import evict, moves, parse, place, reasons

RULES = Settings()


def shrink(workload: str, *ranks: int) -> tuple[str, ...]:
    """The fact that these workers of a gang leave."""
    return ("shrink", workload, *map(str, ranks))


def test_an_elastic_gang_shrinks_before_anybody_is_preempted() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        low red training 1 running a   gang red training 1 x 1..3 running a
        high red training 1 priority 100 pending
    """)
    decisions = schedule(world, RULES)
    assert moves(decisions) == [shrink("gang", 2), place("high", "a", after=("gang",))]
    (shrunk,) = [d for d in decisions if isinstance(d, Shrink)]
    assert shrunk.by == "high"
    assert shrunk.message == "Gives 1 worker to [[w:high]] and goes on with 2; its minimum is 1."


def test_no_more_workers_leave_than_must() -> None:
    world = parse("""
        node a 8 gpus   team red nominal 8
        gang red training 1 x 2..8 running a   new red training 1 x 3 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 5, 6, 7), place("new", "a", "a", "a", after=("gang",))]


def test_a_gang_never_shrinks_below_its_minimum_and_is_left_alone_where_that_would_not_do() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        gang red training 1 x 3..4 running a   new red training 2 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_it_shrinks_on_the_node_that_lacks_least_and_keeps_its_lowest_rank() -> None:
    world = parse("""
        node a 2 gpus   node b 3 gpus   team red nominal 5
        gang red training 1 x 1..4 running a a b b   new red training 2 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 3), place("new", "b", after=("gang",))]


def test_in_its_own_team_it_shrinks_for_equal_priority_and_not_for_lower() -> None:
    text = """
        node a 2 gpus   team red nominal 2
        gang red training 1 x 1..2 priority {} running a   new red training 1 priority 100 pending
    """
    assert moves(schedule(parse(text.format(100)), RULES)) == [shrink("gang", 1), place("new", "a", after=("gang",))]
    assert moves(schedule(parse(text.format(200)), RULES)) == []


def test_what_may_not_be_preempted_or_has_just_started_shrinks_too_for_it_loses_nothing() -> None:
    world = parse("""
        at 1000
        node a 2 gpus   team red nominal 2
        gang red training 1 x 1..2 firm running a started 990   new red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 1), place("new", "a", after=("gang",))]


def test_a_team_that_borrows_gives_back_workers_before_whole_jobs() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 2   team blue nominal 2
        job blue training 1 running a   gang blue training 1 x 1..3 running a
        r1 red training 1 pending   r2 red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [
        shrink("gang", 2),
        place("r1", "a", after=("gang",)),
        evict("job", EvictReason.RECLAIMED, "r2"),
        place("r2", "a", after=("job",)),
    ]


def test_a_team_within_its_nominal_quota_shrinks_for_nobody_else() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 0   team blue nominal 2
        gang blue training 1 x 1..2 running a   r1 red training 1 priority 500 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_a_gang_without_gpus_borrows_nothing_and_shrinks_only_within_its_team() -> None:
    world = parse("""
        node a 2 gpus cpu 4   team red nominal 2   team blue nominal 0
        gang blue training x 1..2 cpu 2 running a   job blue training 1 firm running a
        r1 red training 1 cpu 2 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_what_shrinking_alone_cannot_give_is_taken_from_the_fewest_others() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        j1 red training 1 running a started 10   j2 red training 1 running a started 90000
        gang red training 1 x 1..2 running a
        high red training 2 priority 100 pending
    """)
    assert moves(schedule(world, RULES)) == [
        shrink("gang", 1),
        evict("j2", EvictReason.PREEMPTED, "high"),
        place("high", "a", after=("gang", "j2")),
    ]


def test_a_gang_that_has_to_leave_whole_does_not_shrink_first() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        gang red training 1 x 1..2 running a   high red training 2 priority 100 pending
    """)
    assert moves(schedule(world, RULES)) == [
        evict("gang", EvictReason.PREEMPTED, "high"),
        place("high", "a", after=("gang",)),
    ]


def test_a_starting_gang_is_left_alone() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        gang red training 1 x 1..2 starting a   new red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_it_grows_again_when_room_is_idle() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        gang red training 1 x 1..4 running a a scaled 90000
    """)
    decisions = schedule(world, RULES)
    assert moves(decisions) == [place("gang", "a", "a")]
    assert [w.rank for w in decisions[0].workers] == [2, 3]
    assert schedule(world.after(decisions), RULES) == ()


def test_it_grows_where_what_waits_could_not_start() -> None:
    world = parse("""
        node a 4 gpus   node b 4 gpus   team red nominal 12
        x red training 3 firm running a   gang red training 1 x 2..4 running b b
        big red training 4 pending
    """)
    assert reasons(schedule(world, RULES)) == {"big": Reason.WAITING_FOR_CAPACITY}
    assert moves(schedule(world, RULES)) == [place("gang", "b", "b")]


def test_it_does_not_grow_on_what_is_kept_for_a_planned_start() -> None:
    text = """
        node a 4 gpus   node b 3 gpus   team red nominal 12
        x red training 3 firm running a started 99000   gang red training 1 x 2..4 running b b
        big red training 4 since {} pending
    """
    assert moves(schedule(parse(text.format(99_990)), RULES)) == [place("gang", "a", "b")]
    assert moves(schedule(parse(text.format(90_000)), RULES)) == [place("gang", "b")]


def test_it_does_not_grow_on_what_a_claimant_could_use_that_waits_only_for_a_planned_start() -> None:
    world = parse("""
        node a 4 gpus   node b 2 gpus   node c 1 gpus   team red nominal 12
        x red training 3 firm running a started 99000   gang red training 1 x 2..4 running b b
        big red training 4 since 90000 pending   pair red training 1 x 2 pending
    """)
    assert reasons(schedule(world, RULES))["pair"] is Reason.RESERVED_FOR_LARGER_JOB
    assert moves(schedule(world, RULES)) == []
    assert moves(schedule(world.replace(gone=["pair"]), RULES)) == [place("gang", "c")]


def test_it_rests_after_it_started_or_changed() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4
        gang red training 1 x 1..4 running a a scaled 99950
    """)
    assert moves(schedule(world, RULES)) == []
    assert moves(schedule(world.replace(at=world.at + 10), RULES)) == [place("gang", "a", "a")]


def test_it_grows_on_its_gpu_model_as_close_as_it_requires_and_within_quota() -> None:
    model = """
        node a 2 gpus model t4   node b 2 gpus model h100   team red nominal 4
        gang red training 1 x 1..3 running a a
    """
    near = """
        node a 2 gpus rack r1   node b 1 gpus rack r1   node c 1 gpus rack r2   team red nominal 4
        gang red training 1 x 1..4 require rack running a a
    """
    quota = """
        node a 4 gpus   team red nominal 3 borrowing 0
        gang red training 1 x 1..4 running a a
    """
    found = [moves(schedule(parse(text), RULES)) for text in (model, near, quota)]
    assert found == [[], [place("gang", "b")], [place("gang", "a")]]


def test_a_gang_of_which_a_worker_is_done_does_not_grow() -> None:
    world = parse("node a 4 gpus   team red nominal 4   gang red training 1 x 1..4 finishing running a a")
    assert moves(schedule(world, RULES)) == []


def test_a_claimant_that_quota_refuses_keeps_no_gang_from_growing() -> None:
    world = parse("""
        node a 12 gpus   team red nominal 4 borrowing 0   team blue nominal 8
        mine red training 1 x 2..4 running a a   theirs blue training 1 x 2..4 running a a
        job red training 3 pending
    """)
    assert moves(schedule(world, RULES)) == [place("mine", "a", "a"), place("theirs", "a", "a")]


def test_a_claimant_that_a_gate_model_or_shape_refuses_keeps_no_gang_from_growing() -> None:
    refused = (
        "later red training 1 unmet other pending",
        "again red training 1 notbefore 100060 pending",
        "other red training 1 models h100 pending",
        "large red training 4 pending",
        "near red training 1 x 4 require node pending",
    )
    for claimant in refused:
        world = parse(f"""
            node a 3 gpus   node b 2 gpus   node c 1 gpus model h100   team red nominal 12
            h red training 1 models h100 running c
            gang red training 1 x 2..4 running a a
            {claimant}
        """)
        assert moves(schedule(world, RULES)) == [place("gang", "b", "b")], claimant


def test_what_a_node_gave_in_vain_is_put_back_before_the_next_one_is_asked() -> None:
    world = parse("""
        node a 2 gpus cpu 2   node b 2 gpus   node c 1 gpus   team red nominal 5
        gang red training 1 x 2..3 running c b a   new red training 2 cpu 4 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 1), place("new", "b", after=("gang",))]


def test_the_gang_of_the_lowest_priority_gives_first_and_of_equal_ones_the_latest() -> None:
    world = parse("""
        node a 6 gpus   team red nominal 6
        low red training 1 x 1..2 running a   late red training 1 x 1..2 priority 50 running a
        mid red training 1 x 1..2 priority 50 running a
        new red training 1 x 2 priority 100 pending
    """)
    assert moves(schedule(world, RULES))[:2] == [shrink("low", 1), shrink("mid", 1)]


def test_an_elastic_gang_of_its_own_team_shrinks_before_a_borrower_leaves() -> None:
    world = parse("""
        node a 3 gpus   team red nominal 3   team blue nominal 0
        gang red training 1 x 1..2 running a   job blue training 1 running a
        r1 red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [shrink("gang", 1), place("r1", "a", after=("gang",))]


def test_beside_those_who_leave_only_the_workers_that_are_needed_leave() -> None:
    world = parse("""
        node a 2 gpus   node b 1 gpus   node c 1 gpus   team red nominal 4
        low red training 1 running a   gang red training 1 x 1..3 running c a b checkpointed 99999
        high red training 2 priority 100 pending
    """)
    assert moves(schedule(world, RULES)) == [
        shrink("gang", 1),
        evict("low", EvictReason.PREEMPTED, "high"),
        place("high", "a", after=("gang", "low")),
    ]


def test_a_team_that_holds_only_what_it_owns_gives_nothing_back() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 1   team blue nominal 2
        gang blue training 1 x 1..2 running a   r1 red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == []


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
