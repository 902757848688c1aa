"""Elastic gangs: they shrink to their minimum before anybody has to leave, and grow again when nobody waits."""

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import EvictReason, Reason, Shrink
from scheduler.model.settings import Settings
from tests.worlds import evict, moves, parse, place, reasons, shrink

RULES = Settings()


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
