"""The queue in front of a service whose requests are split: exact by count, never more than the part, never held up."""

import pytest

from autoscaler.lanes import Bounds, Lanes

BOUNDS = Bounds(slots=2, late_after=1.0, waiting=10_000, patience=60.0)


def serve(lanes: Lanes[int], count: int, first: int = 0) -> list[str]:
    """So many requests one after the other; who got each."""
    found = []
    for number in range(first, first + count):
        assert lanes.arrive(number, float(number))
        taken = lanes.take(float(number))
        assert taken is not None
        found.append(taken.replica)
        lanes.done(taken.replica)
    return found


@pytest.mark.parametrize("percent", [1, 10, 33, 50, 99])
def test_the_part_is_exact_over_each_hundred(percent: int) -> None:
    lanes: Lanes[int] = Lanes(BOUNDS)
    lanes.use(("a", "b", "new"), ("new",), percent)
    for hundred in range(3):
        assert serve(lanes, 100, 100 * hundred).count("new") == percent


def test_a_part_of_nothing_gets_nothing_and_without_others_all() -> None:
    lanes: Lanes[int] = Lanes(BOUNDS)
    lanes.use(("a", "new"), ("new",), 0)
    assert serve(lanes, 50).count("new") == 0
    lanes.use(("new",), ("new",), 0)
    assert serve(lanes, 50).count("new") == 50
    lanes.use(("a",), ("new",), 40)
    assert serve(lanes, 50).count("a") == 50


def test_one_that_is_busy_holds_nothing_up_and_gets_its_turns_back_later() -> None:
    lanes: Lanes[int] = Lanes(BOUNDS)
    lanes.use(("a", "new"), ("new",), 50)
    busy = []
    for number in range(40):
        lanes.arrive(number, 0.0)
        taken = lanes.take(0.0)
        assert taken is not None
        if taken.replica == "new":
            busy.append(taken)  # never done
        else:
            lanes.done("a")
    assert len(busy) == BOUNDS.slots
    for _ in busy:
        lanes.done("new")
    assert serve(lanes, 6, 100).count("new") <= 5, "what it missed comes back, but a slot's worth of each at most"


def test_it_never_gets_more_than_its_part_while_the_others_are_busy() -> None:
    lanes: Lanes[int] = Lanes(BOUNDS)
    lanes.use(("a", "new"), ("new",), 10)
    taken = []
    for number in range(20):
        lanes.arrive(number, 0.0)
        if (one := lanes.take(0.0)) is not None:
            taken.append(one.replica)
    assert taken == ["a", "a"]
    assert lanes.waiting == 18
