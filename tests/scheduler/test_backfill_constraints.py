"""Whom planned starts bind: what a team owns is its own before a head that borrows waits for it."""

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import EvictReason, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from tests.worlds import evict, moves, parse, place, reasons

RULES = Settings()

# Red owns 4 of 8 GPUs and holds 3. Two are free; once r1 has ended, five are, which are all that `big` asks.
CLUSTER = """
    at 100000
    node a 8 gpus
    team blue nominal {blue}   team green nominal {green}   team red nominal 4
    r1 red training 3 running a firm started 98000 since 98000
    g1 green training 3 running a firm started 99000 since 99000
"""


def world(line: str, blue: int = 2, green: int = 2) -> Snapshot:
    return parse(CLUSTER.format(blue=blue, green=green) + line)


OWN_HEAD = "big red training 5 since 90000 pending   s red training 1 pending"
# Red's first would borrow, so blue's has its turn before what red owns.
HEAD_OF_ANOTHER = "big blue training 5 since 90000 pending   w red training 6 pending   s red training 1 pending"


@pytest.mark.parametrize("line", [OWN_HEAD, HEAD_OF_ANOTHER])
def test_who_takes_what_its_team_owns_starts_past_a_head_that_would_borrow_while_others_do(line: str) -> None:
    decisions = schedule(world(line), RULES)
    assert ("place", "s") in [move[:2] for move in moves(decisions)]
    assert "big" in reasons(decisions)


def test_where_nobody_else_borrows_the_head_is_not_delayed() -> None:
    decisions = schedule(world(OWN_HEAD, blue=1, green=3), RULES)
    assert moves(decisions) == []
    assert reasons(decisions)["s"] is Reason.RESERVED_FOR_LARGER_JOB


def test_who_would_borrow_delays_no_head_that_would_borrow() -> None:
    decisions = schedule(world("big blue training 5 since 90000 pending   s red training 2 pending"), RULES)
    assert moves(decisions) == []
    assert reasons(decisions)["s"] is Reason.RESERVED_FOR_LARGER_JOB


def test_a_head_that_stays_within_what_its_team_owns_is_not_delayed() -> None:
    decisions = schedule(world(HEAD_OF_ANOTHER, blue=5, green=0), RULES)
    assert moves(decisions) == []
    assert reasons(decisions)["s"] is Reason.RESERVED_FOR_LARGER_JOB


@pytest.mark.parametrize(("since", "starts"), [(99_909, True), (99_910, False)])
def test_its_own_team_waits_for_such_a_head_only_as_long_as_borrowers_may_take_to_leave(
    since: int, starts: bool
) -> None:
    """Red owns two more, of which green's job of three can give none: nobody gives up more than it borrows."""
    text = f"""
        at 100000
        node a 5 gpus
        team green nominal 2   team red nominal 3
        r1 red training 1 running a firm started 98000 since 98000
        g1 green training 3 running a started 99000 since 99000
        big red training 2 since {since} pending   s red training 1 pending
    """
    assert moves(schedule(parse(text), RULES)) == ([place("s", "a")] if starts else [])


def test_who_is_owed_takes_it_back_from_a_borrower_past_the_planned_start() -> None:
    text = """
        at 100000
        node a,b 4 gpus
        team blue nominal 0   team green nominal 0   team red nominal 8
        r1 red training 4 running a firm started 99000 since 99000
        g1 green training 4 running b started 99000 since 99000
        big red training 4 x 2 since 90000 pending   s red training 4 pending
    """
    decisions = schedule(parse(text), RULES)
    assert moves(decisions) == [evict("g1", EvictReason.RECLAIMED, "s"), place("s", "b", after=("g1",))]


def test_the_second_that_would_borrow_by_then_is_kept_out_again() -> None:
    """Both are owed at first; once the first has started, its team holds all that it owns."""
    decisions = schedule(world(HEAD_OF_ANOTHER + "   t red training 1 cpu 1 pending"), RULES)
    assert [move[1] for move in moves(decisions)] == ["s"]
    assert reasons(decisions)["t"] is Reason.RESERVED_FOR_LARGER_JOB
