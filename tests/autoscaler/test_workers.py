"""How a team's elastic trainings share the GPUs that they hold and that are idle: whole workers, within bounds."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.elasticity.memory import Memory
from autoscaler.elasticity.workers import Elastic, gained, workers

MINUTE = 60.0


def line(count: int) -> float:
    """Twice the workers are twice as fast."""
    return float(count)


def flat(count: int) -> float:
    """A second worker makes it a little faster, more make it slower."""
    return {1: 1.0, 2: 1.2}.get(count, 1.2 / math.sqrt(count))


def training(name: str, now: int, speed: Callable[[int], float] = line, **other: Any) -> Elastic:
    values: dict[str, Any] = {"least": 1, "most": 8, "of_worker": 1, "model": name, "submitted": 0.0, "age": 3600.0}
    return Elastic(id=name, now=now, speed=speed, **(values | {"hope": speed} | other))


def planned(*trainings: Elastic, idle: int = 0, of_node: int = 8) -> dict[Any, int]:
    """By the second plan: the first sees them for the first time, and what has just changed does not grow."""
    memory = Memory()
    workers(0.0, 0, of_node, trainings, memory)
    return workers(2 * MINUTE, idle, of_node, trainings, memory)


def test_what_gains_nothing_from_its_workers_leaves_them_to_what_does() -> None:
    fast, slow = training("fast", 4), training("slow", 4, flat)
    found = planned(fast, slow)
    assert found["slow"] <= 2 < 6 <= found["fast"]
    assert gained(found, (fast, slow)) > 0.2


def test_those_that_are_alike_keep_what_they_have() -> None:
    assert planned(training("one", 4), training("other", 4)) == {"one": 4, "other": 4}


def test_idle_gpus_go_to_what_grows_best() -> None:
    assert planned(training("fast", 2), training("slow", 2, flat), idle=4) == {"fast": 6, "slow": 2}


def test_what_the_plan_leaves_idle_is_tried_by_what_may_gain_from_it() -> None:
    unsure, sure = training("unsure", 2, flat, hope=line), training("sure", 2, flat, hope=flat)
    assert planned(unsure, sure, idle=4) == {"unsure": 6, "sure": 2}
    assert planned(sure, training("other", 2, flat, hope=flat), idle=4) == {"sure": 2, "other": 2}


def test_what_was_not_measured_with_its_workers_yet_keeps_them() -> None:
    assert planned(training("fast", 4), training("slow", 4, flat, is_settling=True)) == {"fast": 4, "slow": 4}


def test_a_worker_has_all_of_its_gpus() -> None:
    found = planned(training("fast", 4, of_worker=2), training("slow", 4, flat, of_worker=2))
    assert found["slow"] <= 2 < 6 <= found["fast"]
    assert sum(found.values()) == 8


def test_none_is_below_its_least_however_little_it_gains() -> None:
    assert planned(training("fast", 4), training("slow", 8, flat, least=5))["slow"] == 5


def test_a_plan_that_was_followed_is_kept() -> None:
    memory, now = Memory(), {"fast": 4, "slow": 4}
    seen = []
    for minute in range(0, 60, 15):
        ones = [training("fast", now["fast"]), training("slow", now["slow"], flat)]
        now = {str(name): count for name, count in workers(minute * MINUTE, 0, 8, ones, memory).items()}
        seen.append(now)
    assert all(one == seen[0] for one in seen)


@given(st.data())
def test_plans_stay_within_bounds_and_room_and_do_not_depend_on_the_order(data: st.DataObject) -> None:
    ones = []
    for number in range(data.draw(st.integers(1, 5))):
        least = data.draw(st.integers(1, 3))
        most = data.draw(st.integers(least, 9))
        now = data.draw(st.integers(least, most))
        power = data.draw(st.floats(-0.5, 1.0))
        is_settling = data.draw(st.booleans())
        speed = lambda count, power=power: float(count) ** power  # noqa: E731
        ones.append(
            training(
                str(number), now, speed, least=least, most=most, of_worker=data.draw(st.integers(1, 3)),
                is_settling=is_settling, submitted=float(data.draw(st.integers(0, 2))),
            )
        )  # fmt: skip
    idle = data.draw(st.integers(0, 12))
    found = planned(*ones, idle=idle)
    assert found == planned(*reversed(ones), idle=idle)
    for one in ones:
        assert one.least <= found[one.id] <= one.most
        assert not one.is_settling or found[one.id] == one.now
    held = sum(one.now * one.of_worker for one in ones)
    assert sum(found[one.id] * one.of_worker for one in ones) <= held + idle
