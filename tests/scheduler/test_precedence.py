"""The fixed comparison of values by which the work of one team is ordered."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cycle.ordering import within_team
from scheduler.cycle.precedence import BUCKET, buckets
from scheduler.cycle.schedule import schedule
from scheduler.model.settings import Settings
from tests.worlds import moves, parse, place

RULES = Settings()


def order(text: str, rules: Settings = RULES) -> str:
    """Names of the claimants of a world, first one first."""
    world = parse(f"node a 1 gpus   team red nominal 1\n{text}")
    return " ".join(w.id for w in within_team(list(world.workloads.values()), world.at, rules))


def test_the_classes_are_serving_interactive_deadline_training() -> None:
    assert (
        order("""
        t red training 1 pending   d red training 1 deadline 110000 pending
        n red notebook 1 pending   s red inference 1 pending
    """)
        == "s n d t"
    )


def test_a_class_goes_before_any_priority_and_that_before_attained_service() -> None:
    assert order("t red training 1 priority 500 pending   s red inference 1 pending") == "s t"
    assert order("a red training 1 pending   b red training 1 priority 1 attained 90 pending") == "b a"


def test_a_deadline_that_is_far_away_is_no_way_past_the_others() -> None:
    text = "t red training 1 pending   d red training 1 deadline 186401 pending"
    assert order(text) == "t d"
    assert order(text, Settings(deadline_near_seconds=90_000)) == "d t"


def test_who_was_given_little_goes_before_who_was_given_much() -> None:
    assert order("much red training 1 attained 9 pending   little red training 1 attained 2 pending") == "little much"


def test_a_little_more_service_changes_no_place() -> None:
    assert order("a red training 1 attained 3.9 pending   b red training 1 attained 1.1 pending") == "a b"


def test_an_hour_of_waiting_outweighs_any_service() -> None:
    text = "new red training 1 pending   old red training 1 attained 900 since 96000 pending"
    assert order(text) == "old new"
    assert order(text, Settings(ageing_seconds=7200)) == "new old"


def test_what_failed_more_often_lets_others_of_its_kind_try_first() -> None:
    assert (
        order("f red training 1 failures 2 pending   g red training 1 failures 1 pending   h red training 1") == "h g f"
    )
    assert order("f red training 1 priority 1 failures 2 pending   g red training 1 pending") == "f g"


def test_equal_work_goes_in_the_order_of_submission() -> None:
    assert order("z red training 1 pending   b red training 1 pending   a red training 1 pending") == "z b a"


def test_the_first_in_the_order_gets_the_only_place() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 1
        much red training 1 attained 50 pending   none red training 1 pending
    """)
    assert moves(schedule(world, RULES)) == [place("none", "a")]


@given(st.lists(st.integers(0, 10**12), min_size=2))
def test_buckets_grow_with_service_and_each_is_wider_than_all_before_it(attained: list[int]) -> None:
    found = buckets(np.array(sorted(attained)), RULES).tolist()
    assert found == sorted(found)
    for (low, below), (high, above) in pairwise(zip(sorted(attained), found, strict=True)):
        if above > below + 1:
            assert high >= BUCKET * low
