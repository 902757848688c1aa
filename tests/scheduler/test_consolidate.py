"""Consolidate: small workloads move to other places so that a claimant gets its room in one piece."""

from dataclasses import replace

import pytest

from scheduler.decision import Evict, EvictReason
from scheduler.schedule import schedule
from scheduler.settings import Settings
from scheduler.workload import Phase
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
    assert moved.message == "Moves to another place, which is kept for it, so that red/big gets its room in one piece."


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
