"""DRAGON's release of 2018 in the mix: trainings are levelled by fulfilment."""

import pytest

from controlplane.benchmarks.baselines.fulfilment import FULFILMENT, part
from controlplane.benchmarks.mix import draws, engine
from scheduler.model.decision import Decision
from scheduler.model.snapshot import Snapshot
from tests.mix.made import training, world
from tests.worlds import moves, parse, place

FULL = """
    at 1000
    node a,b 4 gpus
    team red
    e1 red training 1 x 1..6 running a a a b started 100
    e2 red training 1 x 1..4 running a b b b started 200
"""


def decide(seen: Snapshot) -> tuple[Decision, ...]:
    """One round."""
    return tuple(FULFILMENT.decider(world([], notebooks=0))(seen))


def test_the_most_fulfilled_gives_a_worker_to_one_that_is_short_of_its_least_and_no_more() -> None:
    seen = parse(FULL + "j1 red training 1 x 1..4 since 999")
    assert [part(seen.workloads[name]) for name in ("e1", "e2")] == [3 / 5, 1.0]
    decisions = decide(seen)
    assert moves(decisions) == [("shrink", "e2", "3")]
    assert moves(decide(seen.after(decisions))) == []


def test_each_worker_more_comes_from_the_one_that_is_most_fulfilled_then() -> None:
    seen = parse(FULL + "j1 red training 1 x 3..4 since 999")
    assert sorted(moves(decide(seen))) == [("shrink", "e1", "3"), ("shrink", "e2", "2", "3")]


def test_nothing_is_taken_where_it_would_not_help() -> None:
    assert moves(decide(parse(FULL + "j1 red training 1 x 7..8 since 999"))) == []


def test_one_that_waits_starts_with_its_least_before_anybody_grows() -> None:
    seen = parse("""
        at 1000
        node a 5 gpus
        team red
        e1 red training 1 x 1..4 running a a started 100
        j1 red training 1 x 1..4 since 999
        j2 red training 1 x 2..4 since 999
    """)
    assert moves(decide(seen)) == [place("j1", "a"), place("j2", "a", "a")]


def test_free_gpus_go_to_the_least_fulfilled_first() -> None:
    seen = parse("""
        at 1000
        node a,b 4 gpus
        team red
        e1 red training 1 x 1..3 running a a started 100
        e2 red training 1 x 1..5 running a b started 200
    """)
    after = seen.after(decide(seen))
    assert {name: len(after.workloads[name].placement) for name in ("e1", "e2")} == {"e1": 3, "e2": 5}
    scarce = parse("""
        at 1000
        node a,b 4 gpus
        team red
        r1 red training 3 running b started 50
        e1 red training 1 x 1..3 running a a started 100
        e2 red training 1 x 1..5 running a a started 200
    """)
    assert [len(scarce.after(decide(scarce)).workloads[name].placement) for name in ("e1", "e2")] == [2, 3]


@pytest.mark.parametrize("notebooks", [0, 4])
def test_all_trainings_end_in_the_engine_which_checks_each_decision(notebooks: int) -> None:
    trainings = tuple(training(f"t{number}", at=1000.0 + number) for number in range(6))
    outcome = engine.play(draws.World(0, trainings, draws.Service(0, 0.0), notebooks, 0), FULFILMENT, is_checked=True)
    assert outcome.jct.keys() == {one.name for one in trainings}
    assert max(outcome.waited.values()) < 120.0
