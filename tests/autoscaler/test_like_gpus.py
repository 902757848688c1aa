"""What the planner does differently where all GPUs are alike."""

from typing import Any

import numpy as np
import pytest

from autoscaler.elasticity.knapsack import NONE, Problem, exact
from autoscaler.planner import Planner

NODES = [{"id": ("t4", index), "gpu_type": "t4", "gpus": 4} for index in range(4)]


def job(name: str, **more: Any) -> dict[str, Any]:
    """One that gains nearly as much as it has GPUs."""
    row = {
        "id": name, "model": "m", "submitted": 0.0, "age": 6000.0, "max_gpus": {"t4": 64}, "restart_cost_s": 30.0,
        "ref_rate": {"t4": 1.0}, "goodput": {"t4": lambda nodes, gpus: gpus**0.9},
    }  # fmt: skip
    return row | more


def sizes(plan: Any) -> dict[str, int]:
    return {name: sum(gpus for _, gpus in parts) for name, parts in plan.items()}


def test_nobody_grows_before_all_have_a_gpu() -> None:
    plan = sizes(Planner(NODES).plan(0.0, [job(f"j{number}") for number in range(16)], {}))

    assert plan == {f"j{number}": 1 for number in range(16)}


def test_a_job_grows_to_four_times_what_it_was_seen_with() -> None:
    planner = Planner(NODES)
    first = planner.plan(0.0, [job("a")], {})
    second = planner.plan(600.0, [job("a")], first)

    assert sizes(first) == {"a": 4}
    assert sizes(second) == {"a": 16}


def test_a_job_may_have_at_once_what_a_finished_one_of_its_model_had() -> None:
    planner = Planner(NODES)
    planner.plan(600.0, [job("a")], planner.plan(0.0, [job("a")], {}))
    planner.plan(660.0, [job("a")], {"a": [(("t4", index), 4) for index in range(4)]})

    assert sizes(planner.plan(720.0, [job("b")], {})) == {"b": 16}
    assert sizes(planner.plan(720.0, [job("c", model="other")], {})) == {"c": 4}


def test_a_job_does_not_grow_within_a_minute_of_a_change() -> None:
    planner = Planner(NODES)
    first = planner.plan(0.0, [job("a")], {})

    assert sizes(planner.plan(59.0, [job("a")], first)) == {"a": 4}


def test_three_gpus_of_a_node_are_on_offer() -> None:
    plan = sizes(Planner(NODES[:1]).plan(0.0, [job("a"), job("b", goodput={"t4": lambda nodes, gpus: gpus**0.0})], {}))

    assert plan == {"a": 3, "b": 1}


@pytest.mark.parametrize("seed", range(20))
def test_the_choice_for_one_type_is_that_of_a_second_one_that_has_no_gpus(seed: int) -> None:
    generator = np.random.default_rng(seed)
    utility = np.where(generator.random((9, 6)) < 0.2, -np.inf, generator.integers(-3, 9, (9, 6)))
    unserved = generator.integers(-3, 3, 9).astype(float)
    gpus, kind = np.array([1, 2, 3, 4, 8, 12]), np.zeros(6, np.int64)
    one = exact(Problem(utility, unserved, gpus, kind, np.array([13])))
    two = exact(Problem(utility, unserved, gpus, kind, np.array([13, 0])))

    assert one.tolist() == two.tolist()
    assert (one >= NONE).all()
