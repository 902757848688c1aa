"""Catch up: who was overtaken for too long takes the places of its team's work that was queued after it."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason, Place
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from tests.strategies import worlds
from tests.worlds import evict, facts, moves, parse, place

RULES = Settings()
DAY = RULES.overtaken_seconds
PREEMPTED = EvictReason.PREEMPTED

# `big` waits for all of red's GPUs; s1 and s2 were queued after it and run on them.
OVERTAKEN = """
    at 200000
    node a 2 gpus
    team red nominal 2
    s1 red training 1 running a started 150000 since 149000
    s2 red training 1 running a started 160000 since 159000
    big red training 2 since {since} pending
"""


def overtaken(since: float = 200_000 - DAY - 1, more: str = "") -> list[tuple[str, ...]]:
    return moves(schedule(parse(OVERTAKEN.format(since=f"{since:.0f}") + more), RULES))


def test_a_gang_that_was_overtaken_for_a_day_takes_the_places_back_and_says_why() -> None:
    world = parse(OVERTAKEN.format(since=100_000))
    decisions = schedule(world, RULES)
    assert facts(decisions) == [
        evict("s2", PREEMPTED, "big"), evict("s1", PREEMPTED, "big"), place("big", "a", after=("s1", "s2")),
    ]  # fmt: skip
    assert {d.message for d in decisions if isinstance(d, Evict)} == {
        "Makes room for [[w:big]], which was queued before it and waits for 27 h 47 min."
    }


def test_nobody_leaves_before_it_has_waited_so_long() -> None:
    assert overtaken(200_000 - DAY) == []


def test_where_everybody_waits_for_long_half_as_long_as_the_gang_did_is_too_long() -> None:
    # s1 and s2 waited for half as long as `big` has waited, and a second less; what others waited does not count.
    others = "".join(f"   x{i} blue training 1 running b started 199000 since 0" for i in range(3))
    world = parse(OVERTAKEN.format(since=100_000) + "node b 3 gpus   team blue nominal 3" + others)
    for waited, leaves in ((50_000, False), (49_999, True)):
        usual = [replace(world.workloads[u], queued_at=101_000.0, started_at=101_000.0 + waited) for u in ("s1", "s2")]
        assert bool(moves(schedule(world.replace(changed=usual), RULES))) is leaves


@pytest.mark.parametrize(
    "who",
    [
        "x red training 2 running b started 100000 since 99999",  # was queued before it
        "x red training 2 running b started 150000 since 149000 priority 1",
        "x red notebook 2 running b started 150000 since 149000",  # another class goes first
        "x red training 2 running b started 150000 since 149000 deadline 250000",  # as does a near deadline
        "x red training 2 running b started 150000 since 149000 firm",
        "x red training 2 running b started 150000 since 149000 preempted 140000 by z",  # had to leave once today
        "x red training 2 running b started 199950 since 149000",  # has just started
        "x blue training 2 running b started 150000 since 149000",
    ],
)
def test_only_what_stands_behind_it_in_line_leaves(who: str) -> None:
    text = """
        at 200000
        node b 2 gpus
        team red nominal 2   team blue nominal 2
        big red training 2 since 100000 pending
    """
    assert moves(schedule(parse(text + who), RULES)) == []


def test_no_more_leave_than_must_and_the_cheapest() -> None:
    text = """
        at 200000
        node a 3 gpus
        team red nominal 3
        s1 red training 1 running a started 150000 since 149000
        s2 red training 1 running a started 180000 since 179000
        s3 red training 1 running a started 190000 since 189000
        big red training 2 since 100000 pending
    """
    assert sorted(move[1] for move in moves(schedule(parse(text), RULES)) if move[0] == "evict") == ["s2", "s3"]


def test_a_service_that_runs_for_long_makes_nobody_leave_for_one_more_replica() -> None:
    world = parse("""
        at 200000
        node a 2 gpus
        team red nominal 2
        web red inference 1 x 2 running a:0 started 1000 since 900
        s1 red inference 1 running a started 150000 since 149000
    """)
    assert moves(schedule(world, RULES)) == []


def test_who_waits_before_it_for_gpus_of_another_pool_does_not_keep_it_from_that() -> None:
    text = (
        OVERTAKEN.format(since=100_000).replace("big red training 2", "big red training 2 models gpu")
        + """
        node b 2 gpus model h100   quota red pool h100 nominal 2
        x blue training 2 running b firm started 1000   team blue nominal 2 pool h100
        old red training 2 models h100 since 90000 pending
    """
    )
    assert [move[1] for move in moves(schedule(parse(text), RULES)) if move[0] == "place"] == ["big"]


def test_only_the_first_in_line_of_its_team_catches_up() -> None:
    """`new` goes before it, as it held less so far, finds nobody to ask, and waits."""
    world = parse(OVERTAKEN.format(since=100_000) + "   new red training 2 cpu 1 since 199000 pending")
    rules = replace(RULES, max_ageing=0, reservations_per_pool=0)
    assert [move[1] for move in moves(schedule(world, rules)) if move[0] == "place"] == ["big"]
    later = world.replace(changed=[replace(world.workloads["big"], attained=10**9)])
    assert moves(schedule(later, rules)) == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_who_leaves_for_equal_priority_was_queued_after_its_claimant(world: Snapshot) -> None:
    rules = replace(RULES, overtaken_seconds=50.0, overtaken_waits=0.0)
    decisions = schedule(world, rules)
    placed = {d.workload for d in decisions if isinstance(d, Place)}
    known = world.workloads
    for found in decisions:
        if isinstance(found, Evict) and found.reason is PREEMPTED:
            victim, claimant = known[found.workload], known[found.by]
            event(f"equal {victim.priority == claimant.priority}")
            assert claimant.id in placed
            assert victim.team == claimant.team
            assert (victim.priority, -victim.queued_at) < (claimant.priority, -claimant.queued_at)
