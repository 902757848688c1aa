"""Consolidate: small workloads move to other places so that a claimant gets its room in one piece."""

from dataclasses import replace

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason
from scheduler.model.settings import Settings
from scheduler.model.workload import Phase
from tests.worlds import evict, moves, parse, place

RULES = Settings()
MOVED = EvictReason.CONSOLIDATED
PIECES = """
    node a 4 gpus   node b 4 gpus   team red nominal 4   team blue nominal 4
    a1 red training 3 firm running a   b1 blue training 1 {} running b   b2 blue training 1 firm running b
    big red training 3 pending
"""


def test_who_loses_little_moves_so_that_a_claimant_gets_one_piece() -> None:
    world = parse(PIECES.format("saves 600 checkpointed 99900"))
    decisions = schedule(world, RULES)
    assert moves(decisions) == [evict("b1", MOVED, "big"), place("big", "b", after=("b1",))]
    (moved,) = [d for d in decisions if isinstance(d, Evict)]
    assert (
        moved.message == "Moves to another place, which is kept for it, so that [[w:big]] gets its room in one piece."
    )


@pytest.mark.parametrize(
    "words",
    [
        "",
        "saves 600 firm",
        "saves 600 started 99990",
        "saves 600 preempted 99000 by x preempted 98000 by y preempted 97000 by z",
    ],
)
def test_nobody_moves_who_saves_nothing_is_firm_young_or_left_too_often(words: str) -> None:
    assert moves(schedule(parse(PIECES.format(words)), RULES)) == []


def test_services_do_not_move() -> None:
    world = parse(PIECES.format("saves 600").replace("b1 blue training", "b1 blue inference"))
    assert moves(schedule(world, RULES)) == []


def test_nobody_moves_without_a_place_to_go_to() -> None:
    world = """
        node b 2 gpus   node c 1 gpus cpu {}   team red nominal 4
        b1 red training 1 cpu 4 saves 600 running b   big red training 2 pending
    """
    assert moves(schedule(parse(world.format(2)), RULES)) == []
    assert moves(schedule(parse(world.format(4)), RULES))[0] == evict("b1", MOVED, "big")


def test_a_place_that_others_have_still_to_leave_is_none_to_go_to() -> None:
    world = parse(f"{PIECES.format('saves 600')}   gone blue training 1 leaving a")
    assert moves(schedule(world, RULES)) == []


def test_only_what_is_smaller_than_the_piece_moves() -> None:
    world = parse("""
        node a 2 gpus cpu 2   node b 2 gpus cpu 8   team red nominal 4
        b1 red training 2 saves 600 running b   big red training 2 cpu 4 pending
    """)
    assert moves(schedule(world, RULES)) == []


def test_the_place_is_kept_until_the_moved_one_has_started_again() -> None:
    world = parse(PIECES.format("saves 600"))
    first = world.after(schedule(world, RULES))
    assert first.workloads["b1"].moving
    thief = parse("node a 4 gpus   team blue nominal 4   thief blue training 1 priority 900 pending").workloads["thief"]
    then = first.replace(changed=[replace(thief, seq=9)])
    assert moves(schedule(then, RULES)) == []
    left = then.workloads["b1"]
    gone = then.replace(changed=[replace(left, phase=Phase.QUEUED, placement=(), started_at=None)])
    decisions = schedule(gone, RULES)
    assert moves(decisions) == [place("b1", "a")]
    assert not gone.after(decisions).workloads["b1"].moving


def test_a_moved_one_starts_once_and_before_anybody_else() -> None:
    world = parse("""
        node a 3 gpus   team red nominal 2   team blue nominal 2
        first blue training 1 priority 100 pending   b1 red training 1 moving pending
    """)
    assert moves(schedule(world, RULES)) == [place("b1", "a"), place("first", "a")]


def test_no_more_move_than_the_setting_allows_and_the_cheapest_go() -> None:
    world = parse("""
        node a 4 gpus   node b 4 gpus   node c 2 gpus   team red nominal 10
        b1 red training 1 saves 600 running b checkpointed 99000
        b2 red training 1 saves 600 running b checkpointed 99999
        b3 red training 1 firm running b
        a1 red training 1 saves 600 running a checkpointed 10   a2 red training 2 firm running a
        c1 red training 1 firm running c
        big red training 3 pending
    """)
    places = place("big", "b", after=("b1", "b2"))
    assert moves(schedule(world, RULES)) == [evict("b2", MOVED, "big"), evict("b1", MOVED, "big"), places]
    assert moves(schedule(world, Settings(max_moves=1))) == []


def test_they_hold_no_more_than_the_claimant_needs() -> None:
    world = parse("""
        node a 4 gpus   node b 4 gpus   team red nominal 8
        b1 red training 2 saves 600 running b   a1 red training 1 firm running a
        b2 red training 1 firm running b
        big red training 1 x 4 require node pending
    """)
    assert moves(schedule(world, RULES)) == []


HALVES = """
    node a,b,c,d 2 gpus   team red nominal 8
    a1 red training 1 firm running a   c1 red training 1 firm running c
    b1 red training 1 saves 600 running b checkpointed 99999   d1 red training 1 saves 600 running d
    w1 red training 2 pending   w2 red training 2 cpu 1 pending
"""


def moved(text: str, settings: Settings = RULES) -> set[str]:
    """Whom the round moves."""
    return {d.workload for d in schedule(parse(text), settings) if isinstance(d, Evict) and d.reason is MOVED}


def test_the_moves_of_all_claimants_of_a_round_count_together() -> None:
    assert moved(HALVES) == {"b1", "d1"}
    assert moved(HALVES, Settings(max_moves=1)) == {"b1"}
    assert moved(HALVES, Settings(max_moves=0)) == set()


def test_a_gang_on_one_node_gets_all_of_it_where_those_that_move_hold_as_much() -> None:
    text = """
        node a,b,c 2 gpus   team red nominal 8
        a1 red training 1 firm running a   c1 red training 1 firm running c
        b1 red training 1 saves 600 running b   b2 red training 1 saves 600 running b
        big red training 1 x 2 require node pending
    """
    assert moved(text) == {"b1", "b2"}


def test_nobody_moves_who_holds_more_together_than_the_claimant_needs() -> None:
    text = """
        node a,b,c 4 gpus   team red nominal 20
        a1 red training 2 firm running a   c1 red training 2 firm running c
        b1 red training 2 saves 600 running b   b2 red training 2 saves 600 running b
        big red training {} pending
    """
    assert moved(text.format(3)) == set()
    assert moved(text.format(4)) == {"b1", "b2"}


def test_all_or_none_of_those_that_have_to_move_have_a_place_to_go_to() -> None:
    text = """
        node a,c 2 gpus cpu 2   node b 2 gpus cpu 20   team red nominal 8
        a1 red training 1 cpu 1 firm running a   c1 red training 1 cpu 1 firm running c
        b1 red training 1 cpu 1 saves 600 running b   b2 red training 1 cpu {} saves 600 running b
        big red training 2 cpu 4 pending
    """
    assert moved(text.format(1)) == {"b1", "b2"}
    assert moved(text.format(2)) == set()


# b1 would lose less than d1 by a move, but has no place to go to; only b has the cores for who asks many.
TRIED = """
    node a,c 2 gpus cpu 4   node b 2 gpus cpu 64   node d 2 gpus cpu 6   team red nominal 40
    a1 red training 1 cpu 1 firm running a   c1 red training 1 cpu 1 firm running c
    b1 red training 1 cpu 8 saves 600 running b checkpointed 99999   d1 red training 1 cpu 1 saves 600 running d
    small red training 2 cpu 4 pending
"""


@pytest.mark.parametrize(("most", "who"), [(3, set()), (7, set()), (8, {"d1"})])
def test_a_claimant_tries_a_quarter_of_the_sets_that_a_round_may_try(most: int, who: set[str]) -> None:
    assert moved(TRIED, Settings(max_move_scenarios=most)) == who
    assert moved(HALVES, Settings(max_move_scenarios=4)) == {"b1", "d1"}  # one set for each


def test_the_sets_that_others_tried_in_vain_are_no_longer_there_to_try() -> None:
    others = "".join(f"big{n} red training 2 cpu {20 + n} since 10 pending   " for n in range(4))
    cheap = TRIED.replace("checkpointed 99999", "").replace("running d", "running d checkpointed 99999")
    text = cheap.replace("small", f"{others}small")
    assert moved(text, Settings(max_move_scenarios=4)) == set()
    assert moved(text, Settings(max_move_scenarios=5)) == {"d1"}


def test_shares_move_for_a_larger_share() -> None:
    assert moved("""
        node a,b 1 gpus   team red nominal 8
        a1 red notebook share 0.5 firm running a   b1 red training share 0.4 saves 600 running b
        big red training share 0.7 pending
    """) == {"b1"}


def test_as_many_may_move_as_the_setting_says() -> None:
    text = """
        node a,c 2 gpus   node b 2 gpus   team red nominal 8
        a1 red training 1 firm running a   c1 red training 1 firm running c
        b1 red training 1 saves 600 running b   b2 red training 1 saves 600 running b
        big red training 2 pending
    """
    assert moved(text, Settings(max_moves=2)) == {"b1", "b2"}
    assert moved(text, Settings(max_moves=1)) == set()


def test_a_node_where_too_many_had_to_move_costs_no_try() -> None:
    movers = "   ".join(f"b{n} red training 1 saves 600 running b checkpointed 99999" for n in range(5))
    text = f"""
        node a 1 gpus   node b,d 5 gpus   team red nominal 40
        {movers}   d1 red training 1 saves 600 running d checkpointed 99000
        big red training 5 pending
    """
    assert moved(text, Settings(max_move_scenarios=4)) == {"d1"}


# Six nodes with one GPU free each; room for a worker with 3 GPUs takes three moves from b, or from d.
THREES = """
    node b,d 3 gpus cpu 64   node e 3 gpus cpu 3   node h1,h2,h3,h4,h5,h6 2 gpus   team red nominal 60
    h1 red training 1 firm running h1   h2 red training 1 firm running h2   h3 red training 1 firm running h3
    h4 red training 1 firm running h4   h5 red training 1 firm running h5   h6 red training 1 firm running h6
    b1 red training 1 saves 600 running b checkpointed 99999   d1 red training 1 saves 600 running d
    b2 red training 1 saves 600 running b checkpointed 99999   d2 red training 1 saves 600 running d
    b3 red training 1 saves 600 running b checkpointed 99999   d3 red training 1 saves 600 running d
"""


def test_a_gang_moves_others_only_for_those_workers_that_have_no_room() -> None:
    assert moved(f"{THREES}   big red training 3 x 2 pending") == {"b1", "b2", "b3"}
    assert moved(f"{THREES}   big red training 3 x 3 pending") == set()


def test_a_gang_that_takes_too_many_moves_leaves_the_sets_to_others() -> None:
    gangs = "   ".join(f"big{n} red training 3 x 3 cpu 1 ram {n} pending" for n in range(1000, 1004))
    text = f"{THREES}   {gangs}   small red training 3 cpu 8 pending"
    assert moved(text, Settings(max_move_scenarios=4)) == {"b1", "b2", "b3"}


def test_of_those_that_moved_the_one_that_moved_first_starts_first() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 4
        m1 red training 1 moving preempted 100 by x preempted 900 by y pending
        m2 red training 1 moving preempted 500 by z pending
    """)
    assert moves(schedule(world, RULES)) == [place("m2", "a")]


def test_a_moved_one_goes_to_another_gpu_model_where_quota_lets_it() -> None:
    world = parse("""
        node a 1 gpus model t4   node b 1 gpus model h100   team red   team blue
        quota red pool t4 nominal 0 borrowing 0   quota red pool h100 nominal 0
        quota blue pool h100 nominal 0
        first blue training 1 models h100 priority 100 pending   m red training 1 models t4,h100 moving pending
    """)
    assert moves(schedule(world, RULES)) == [place("m", "b")]
