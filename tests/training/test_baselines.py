"""What our policy is compared with on the cluster of like GPUs beside the figures' own: each by its rules."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.benchmarks.baselines.dragon import Dragon, Fulfilment, most
from controlplane.benchmarks.baselines.native import Native
from controlplane.benchmarks.baselines.settings import BASELINES, PLAYED
from controlplane.benchmarks.baselines.sialike import SiaLike, placed
from controlplane.benchmarks.training.cluster16 import GPU_TYPE, NODE_GPUS, NODES, Outcome, simulate
from controlplane.benchmarks.training.nearchuscluster import SETTINGS, Setting
from controlplane.benchmarks.training.rounds import Plan
from controlplane.benchmarks.training.trainings import Asked
from tests.controlplane.smallcluster import application, guarded, jobs_of, submitted


def at(**nodes: Mapping[int, int]) -> Plan:
    """GPUs by node, by training."""
    return {name: tuple(((GPU_TYPE, node), gpus) for node, gpus in where.items()) for name, where in nodes.items()}


def sizes(plan: Plan) -> dict[Any, int]:
    """GPUs by training."""
    return {name: sum(gpus for _, gpus in parts) for name, parts in plan.items()}


def played(setting: Setting, count: int = 30, seed: int = 0) -> Outcome:
    """So many trainings of two GPUs, one each half minute."""
    asked = [Asked(submitted(f"a-{number}", at=number * 30.0, gpus=2), setting.free > 0) for number in range(count)]
    return simulate(asked, {"cifar10": application()}, setting.policy(), setting.rules, seed)


@pytest.mark.parametrize("name", PLAYED)
def test_all_work_is_done_no_plan_asks_for_what_is_not_there_and_a_seed_is_a_course(name: str) -> None:
    told = played(PLAYED[name])

    assert told.done == told.asked
    assert set(told.jct) == {f"a-{number}" for number in range(30)}
    assert told.infeasible == 0
    assert told == played(PLAYED[name])


@pytest.mark.parametrize("name", PLAYED)
def test_none_reads_a_table(name: str) -> None:
    told, guard = guarded(PLAYED[name])

    assert len(told.jct) == 20
    assert guard.plans > 0
    assert guard.reads == 0


def test_no_name_is_one_of_the_figures_own_settings() -> None:
    assert not PLAYED.keys() & SETTINGS.keys()


@pytest.mark.parametrize("name", [name for name, one in BASELINES.items() if one.seeds == 1])
def test_a_baseline_that_is_played_with_one_seed_does_not_depend_on_it(name: str) -> None:
    assert played(BASELINES[name], seed=1).jct == played(BASELINES[name], seed=2).jct


# --- native-k8s -------------------------------------------------------------------------------


def test_a_part_of_a_gang_holds_gpus_without_running_and_nothing_behind_it_has_them() -> None:
    native, jobs = Native(), jobs_of("a 60\nb 8\nc 2")

    assert sizes(native.plan(10.0, jobs, {})) == {"a": 60}
    assert sizes(native.plan(20.0, jobs[1:], {})) == {"b": 8, "c": 2}


def test_of_gangs_that_hold_parts_of_each_other_the_youngest_is_killed_after_five_minutes() -> None:
    native, jobs = Native(), [{**job, "submitted": 0.0} for job in jobs_of("a 40\nb 40")]

    assert native.plan(0.0, jobs, {}) == {}
    assert native.plan(299.0, jobs, {}) == {}
    native.plan(300.0, jobs, {})
    assert sizes(native.plan(301.0, jobs, {})) == {"a": 40}


# --- DRAGON -----------------------------------------------------------------------------------


def test_dragon_starts_one_a_pass_on_one_node_with_what_it_asks_for_or_what_there_is() -> None:
    dragon = Dragon(1)
    jobs = [{**job, "age": 0.0} for job in jobs_of("a 3\nb 62")]
    first = dragon.plan(0.0, jobs, {})

    assert sizes(first) == {"a": 3}
    assert len(first["a"]) == 1
    assert sizes(dragon.plan(15.0, jobs, first)) == {"a": 3, "b": 61}


def test_dragon_makes_room_after_thirty_seconds_by_workers_apart_from_the_first_one() -> None:
    dragon = Dragon(1)
    (a,), (b,) = jobs_of("a 64"), jobs_of("b 2")
    held = dragon.plan(0.0, [a], {})
    home = held["a"][0][0][1]

    assert sizes(dragon.plan(29.0, [a, {**b, "age": 29.0}], held)) == {"a": 64}
    after = dragon.plan(30.0, [a, {**b, "age": 30.0}], held)
    assert sizes(after) == {"a": 63, "b": 1}
    assert dict(after["a"])[GPU_TYPE, home] == NODE_GPUS


def test_dragon_grows_to_the_most_after_a_minute_of_quiet() -> None:
    dragon, jobs = Dragon(2), jobs_of("a 5")
    held = dragon.plan(0.0, jobs, {})  # age 100: the first in line, so that this was an action

    assert sizes(held) == {"a": 5}
    assert sizes(dragon.plan(59.0, jobs, held)) == {"a": 5}
    assert sizes(dragon.plan(60.0, jobs, held)) == {"a": 10}


# --- fulfilment -------------------------------------------------------------------------------


def test_fulfilment_levels_the_part_of_the_way_from_one_worker_to_the_most() -> None:
    found = sizes(Fulfilment(1).plan(0.0, jobs_of("a 61\nb 31"), {}))

    assert found == {"a": 42, "b": 22}  # with one left 41 of 60 against 20 of 30


def test_fulfilment_takes_a_worker_from_the_most_fulfilled_for_one_that_has_none() -> None:
    held = at(a=dict.fromkeys(range(14), 4), b={14: 4, 15: 4})
    found = Fulfilment(1).plan(0.0, jobs_of("a 60\nb 8\nc 4"), held)

    assert sizes(found) == {"a": 56, "b": 7, "c": 1}
    assert found["a"] == held["a"]


@given(st.lists(st.integers(1, 64), min_size=1, max_size=64), st.sampled_from([1, 2]))
def test_under_fulfilment_all_have_a_worker_none_more_than_its_most_and_no_gpu_is_idle_that_one_wants(
    asked: list[int], times: int
) -> None:
    jobs = jobs_of("\n".join(f"j{number} {gpus}" for number, gpus in enumerate(asked)))
    found = sizes(Fulfilment(times).plan(0.0, jobs, {}))

    assert set(found) == {job["id"] for job in jobs}
    assert all(1 <= found[job["id"]] <= most(job, times) for job in jobs)
    assert sum(found.values()) == min(NODES * NODE_GPUS, sum(most(job, times) for job in jobs))


# --- Sia --------------------------------------------------------------------------------------


def test_sia_begins_with_one_gpu_and_doubles_what_a_training_has_had() -> None:
    sia, jobs = SiaLike(), jobs_of("a 8")
    plan: Plan = sia.plan(0.0, [{**jobs[0], "goodput": {GPU_TYPE: None}}], {})
    seen = [sizes(plan)["a"]]
    for now in (60.0, 120.0, 180.0):
        plan = sia.plan(now, [{**jobs[0], "age": 1e6}], plan)
        seen.append(sizes(plan)["a"])

    assert seen == [1, 2, 4, 8]
    assert sia.event(181.0, jobs, plan) is plan


def test_who_keeps_its_size_keeps_its_nodes_unless_a_larger_one_needs_a_whole_node() -> None:
    held = at(a={3: 2}, b={5: 4}, **{f"c{node}": {node: 1} for node in range(16) if node not in (3, 5)})
    sizes_of = {name: 2 if name == "a" else 1 for name in held if name != "b"}

    assert placed(sizes_of, held) == {name: parts for name, parts in held.items() if name != "b"}
    found = placed({**sizes_of, "b": 8}, held)
    assert sum(found[name] != held[name] for name in sizes_of) == 1
    assert {gpus for _, gpus in found["b"]} == {NODE_GPUS}


@st.composite
def rounds(draw: st.DrawFn) -> list[dict[str, int]]:
    """Sizes of trainings in some rounds, all that fit."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        left, some = NODES * NODE_GPUS, {}
        for name in draw(st.permutations([f"j{number}" for number in range(20)])):
            size = draw(st.sampled_from([0, 1, 1, 2, 2, 4, 8, 12]))
            if 0 < size <= left:
                some[name], left = size, left - size
        found.append(some)
    return found


@given(rounds())
def test_all_that_fit_find_a_place_of_one_node_or_of_whole_ones(asked: list[dict[str, int]]) -> None:
    plan: Plan = {}
    for some in asked:
        plan = placed(some, plan)
        used = [0] * NODES
        for parts in plan.values():
            for (_, node), gpus in parts:
                used[node] += gpus
        assert sizes(plan) == some
        assert max(used, default=0) <= NODE_GPUS
        assert all(len(plan[name]) == max(1, size // NODE_GPUS) for name, size in some.items())
