"""The planner of elastic trainings: what holds for every plan, and what a plan decides in small worlds."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.elasticity.knapsack import NONE, Problem, exact
from autoscaler.elasticity.prices import priced
from autoscaler.planner import PlanInputError, Planner

Plan = Mapping[Any, Sequence[tuple[tuple[str, int], int]]]


def nodes(**counts: tuple[int, int]) -> list[dict[str, Any]]:
    """So many nodes of so many GPUs each, by type."""
    return [{"id": (t, i), "gpu_type": t, "gpus": gpus} for t, (count, gpus) in counts.items() for i in range(count)]


def job(name: str, most: int = 8, power: float | None = 0.9, **more: Any) -> dict[str, Any]:
    """A job that speeds up by this power of its GPUs on each type; None: it has not run yet."""
    goodput = None if power is None else (lambda nodes, gpus, power=power: gpus**power)
    row = {
        "id": name, "model": "m", "submitted": 0.0, "age": 600.0, "attained_gpu_s": 0.0, "restarts": 0,
        "max_gpus": {"slow": most, "fast": most}, "restart_cost_s": 30.0, "restarting": False,
        "ref_rate": {"slow": 1.0, "fast": 3.0}, "requested_gpus": 1, "goodput": {"slow": goodput, "fast": goodput},
    }  # fmt: skip
    return row | more


def total(plan: Plan, name: str) -> int:
    return sum(gpus for _, gpus in plan.get(name, ()))


sizes = st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 6, 8]))
worlds = st.tuples(sizes, sizes)
many_jobs: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict, most=st.integers(0, 40), power=st.one_of(st.none(), st.floats(0.0, 1.1)),
        restarting=st.booleans(), restart_cost_s=st.floats(0, 300), age=st.floats(0, 1e5),
    ),
    max_size=14,
)  # fmt: skip


def played(world: tuple[tuple[int, int], tuple[int, int]], rows: list[list[dict[str, Any]]]) -> list[Plan]:
    """The plans of rounds in turn: each list of jobs is a round, and a job keeps its place in the list as its name."""
    planner = Planner(nodes(slow=world[0], fast=world[1]))
    plans: list[Plan] = []
    current: Plan = {}
    for number, round_ in enumerate(rows):
        current = planner.plan(60.0 * number, [job(f"j{i}", **row) for i, row in enumerate(round_)], current)
        plans.append(current)
    return plans


@settings(deadline=None)
@given(worlds, st.lists(many_jobs, min_size=1, max_size=4))
def test_no_plan_gives_what_is_not_there(world: Any, rounds: list[list[dict[str, Any]]]) -> None:
    for plan, round_ in zip(played(world, rounds), rounds, strict=True):
        left = {row["id"]: row["gpus"] for row in nodes(slow=world[0], fast=world[1])}
        for name, parts in plan.items():
            assert len({node[0] for node, _ in parts}) == 1, "GPUs of two types in one job"
            assert total(plan, name) <= round_[int(name[1:])]["most"], "more than its limit"
            for node, gpus in parts:
                left[node] -= gpus
                assert gpus > 0
        assert min(left.values()) >= 0, "more than a node has"


@settings(deadline=None)
@given(worlds, many_jobs, st.randoms(use_true_random=False))
def test_a_plan_does_not_depend_on_the_order_of_nodes_and_jobs(world: Any, rows: Any, random: Any) -> None:
    there = nodes(slow=world[0], fast=world[1])
    jobs = [job(f"j{i}", **row) for i, row in enumerate(rows)]
    first = Planner(there).plan(0.0, jobs, {})
    random.shuffle(there)
    random.shuffle(jobs)
    assert Planner(there).plan(0.0, jobs, {}) == first


@settings(deadline=None)
@given(worlds, st.lists(many_jobs, min_size=1, max_size=3))
def test_the_same_rounds_give_the_same_plans(world: Any, rounds: list[list[dict[str, Any]]]) -> None:
    assert played(world, rounds) == played(world, rounds)


def test_a_settled_world_is_left_alone() -> None:
    planner = Planner(nodes(slow=(2, 4), fast=(1, 8)))
    jobs = [job(f"j{i}", most=4) for i in range(5)]
    first = planner.plan(0.0, jobs, {})
    assert planner.plan(60.0, jobs, first) == first


def test_a_job_that_restarts_is_left_where_it_is() -> None:
    held = {"j0": [(("slow", 0), 1)]}
    plan = Planner(nodes(slow=(1, 4), fast=(1, 8))).plan(0.0, [job("j0", restarting=True)], held)
    assert plan == held


def test_a_lone_job_that_scales_gets_the_fast_node() -> None:
    plan = Planner(nodes(slow=(1, 8), fast=(1, 8))).plan(0.0, [job("j0", power=1.0)], {})
    assert plan == {"j0": [(("fast", 0), 8)]}


def test_a_job_that_has_not_run_starts_with_one_gpu() -> None:
    assert total(Planner(nodes(slow=(1, 8))).plan(0.0, [job("j0", power=None)], {}), "j0") == 1


def test_a_small_job_moves_when_a_large_one_needs_the_whole_node() -> None:
    held = {"a": [(("slow", 0), 1)], "b": [(("slow", 1), 1)]}
    jobs = [job("a", most=1, power=0.0), job("b", most=1, power=0.0), job("c", most=4, power=1.0)]
    plan = Planner(nodes(slow=(2, 4))).plan(0.0, jobs, held)
    assert total(plan, "c") == 4
    assert plan["a"][0][0] == plan["b"][0][0] != plan["c"][0][0]


def test_less_remaining_work_goes_first_once_a_model_has_history() -> None:
    planner = Planner(nodes(slow=(1, 1)))
    first, half, new = (job(name, most=1, restart_cost_s=0.0) for name in ("first", "half", "a new one"))
    held = planner.plan(0.0, [first], {})
    planner.plan(3600.0, [first], held)
    held = planner.plan(3660.0, [half], {})  # the first one has finished: an hour is usual
    planner.plan(7000.0, [half], held)
    plan = planner.plan(7060.0, [half, new], {})  # of two equal jobs, the one whose name comes first would get it
    assert set(plan) == {"half"}


def test_a_function_that_takes_single_numbers_only_is_asked_one_by_one() -> None:
    table = {(1, 1): 1.0, (1, 2): 1.8, (1, 3): 2.5, (1, 4): 3.0}
    row = job("j0", most=4) | {"goodput": {"slow": lambda nodes, gpus: table[nodes, gpus]}}
    assert total(Planner(nodes(slow=(1, 4))).plan(0.0, [row], {}), "j0") == 4


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_gpus": {"slow": -1}}, r"jobs\[0\]\.max_gpus\['slow'\] is -1"),
        ({"ref_rate": {"slow": float("nan")}}, r"jobs\[0\]\.ref_rate\['slow'\] is nan"),
        ({"restart_cost_s": "30"}, r"jobs\[0\]\.restart_cost_s is '30'"),
        ({"goodput": {"slow": 3.0}}, r"jobs\[0\]\.goodput\['slow'\]: give a function"),
        ({"max_gpus": 4}, r"jobs\[0\]\.max_gpus is 4: give a dictionary"),
    ],
)
def test_a_bad_field_is_named_with_its_fix(change: dict[str, Any], told: str) -> None:
    with pytest.raises(PlanInputError, match=told):
        Planner(nodes(slow=(1, 4))).plan(0.0, [job("j0") | change], {})


def test_a_node_whose_id_is_of_another_type_is_refused() -> None:
    with pytest.raises(PlanInputError, match=r"nodes\[0\]\.id"):
        Planner([{"id": ("fast", 0), "gpu_type": "slow", "gpus": 4}])


def drawn(seed: int, jobs: int, room: tuple[int, ...]) -> Problem:
    """Concave utilities of 1, 2 and 4 GPUs of each type."""
    rng = np.random.default_rng(seed)
    kind, gpus = (np.array(column) for column in zip(*itertools.product(range(len(room)), (1, 2, 4)), strict=True))
    speed = rng.uniform(1, 4, (jobs, len(room)))[:, kind] * gpus ** rng.uniform(0.1, 1, (jobs, 1))
    return Problem(np.log(speed), np.full(jobs, -1.0), gpus, kind, np.array(room))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_the_exact_choice_is_the_best_of_all(seed: int, jobs: int) -> None:
    asked = drawn(seed, jobs, (3, 4))
    options = [np.array(c) for c in itertools.product(range(-1, 6), repeat=jobs)]
    best = max(asked.value(c) for c in options if (asked.used(c) <= asked.room).all())
    found = exact(asked)
    assert (asked.used(found) <= asked.room).all()
    assert asked.value(found) == pytest.approx(best)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000))
def test_the_choice_by_prices_is_feasible_and_near_the_exact_one(seed: int) -> None:
    asked = drawn(seed, 20, (12, 16))
    nobody = asked.value(np.full(20, NONE))
    found = priced(asked)
    assert (asked.used(found) <= asked.room).all()
    assert asked.value(found) - nobody >= 0.97 * (asked.value(exact(asked)) - nobody)
