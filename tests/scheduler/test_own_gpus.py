"""Gangs beside shares whose workers wait for each other: they leave for GPUs of their own once these are free."""

from dataclasses import replace

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Evict, EvictReason
from scheduler.model.settings import Settings
from scheduler.model.workload import Phase
from tests.worlds import moves, parse, place, shrink

RULES = Settings()
WORLD = """
    node a 2 gpus memory 16000
    node b 2 gpus memory 16000
    team red nominal 8
    n1 red notebook share 0.5 smem 4000 running a:0
    f1 red training 1 running a:1
"""
ALONE = "g1 red training 1 gpumem 8000 x 1..1..3 saves 600 lent n1 0 running a:0"


def moved(text: str) -> list[str]:
    """Those that leave for GPUs of their own."""
    return [
        d.workload for d in schedule(parse(text), RULES) if isinstance(d, Evict) and d.reason is EvictReason.REALLOCATED
    ]


def test_a_gang_that_meets_beside_shares_starts_again_on_gpus_of_its_own() -> None:
    world = parse(WORLD + ALONE)
    (left,) = (d for d in schedule(world, RULES) if isinstance(d, Evict))
    assert (left.workload, left.reason, [a.node for a in left.keeps]) == ("g1", EvictReason.REALLOCATED, ["b"])
    gang = world.after([left]).workloads["g1"]
    queued = replace(gang, phase=Phase.QUEUED, placement=())
    assert place("g1", "b") in moves(schedule(world.replace(changed=[queued]), RULES))
    assert not gang.preempted_by


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("saves 600", "", "it saves no work"),
        ("saves 600", "saves 600 firm", "it may not be stopped"),
        ("saves 600", "saves 600 scaled 99990", "it has changed just now"),
        ("node b 2 gpus", "node b 2 gpus cordoned", "no GPU is free"),
        ("x 1..1..3", "x 1..1..3 role ps*1/cpu=1", "no worker waits for another"),
    ],
)
def test_where_it_stays(before: str, after: str, why: str) -> None:
    text = WORLD + ALONE
    assert before in text
    changed = text.replace(before, after)
    if "role" in after:
        changed = changed.replace("lent n1 0 running a:0", "lent n1 1 running a a:0")
    assert moved(changed) == [], why


def test_a_gang_that_meets_elsewhere_gives_the_worker_beside_shares_up() -> None:
    both = ALONE.replace("lent n1 0 running a:0", "lent n1 1 running b:0 a:0")
    assert shrink("g1", 1) in moves(schedule(parse(WORLD + both), RULES))


def test_one_that_needs_it_for_its_minimum_moves_as_a_whole() -> None:
    both = ALONE.replace("x 1..1..3", "x 2..2..3").replace("lent n1 0 running a:0", "lent n1 1 running b:0 a:0")
    assert moved(WORLD + both) == [], "one GPU is free, and it needs two"
    assert moved(WORLD.replace("node b 2", "node b 3") + both) == ["g1"]
