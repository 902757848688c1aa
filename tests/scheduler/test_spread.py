"""Several replicas of one service on shared GPUs: packed, unless the service says over what they are to be spread."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import Place
from scheduler.model.settings import Placement, Settings
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, MEMORY
from tests.worlds import parse

NODES = """
    node a 2 gpus memory 40000 rack r1   node b 2 gpus memory 40000 rack r1   node c 2 gpus memory 40000 rack r2
    team red nominal 6
"""
SERVICE = "s1 red inference share 0.5 smem 10000 x 2..2..4 pending"


def places(world: str, placement: Placement = Placement.BEST_FIT) -> list[tuple[str, tuple[int, ...]]]:
    """Where the replicas of s1 come to, in the order of their ranks."""
    decided = schedule(parse(world), Settings(placement=placement))
    return [(w.node, w.gpus) for d in decided if isinstance(d, Place) and d.workload == "s1" for w in d.workers]


def test_two_replicas_of_one_service_lie_on_one_gpu_unless_they_are_spread() -> None:
    assert places(NODES + SERVICE) == [("a", (0,)), ("a", (0,))]
    third = places(NODES + SERVICE.replace("x 2..2..4", "x 3..3..4"))
    assert third == [("a", (0,)), ("a", (0,)), ("a", (1,))]


@pytest.mark.parametrize("placement", list(Placement))
@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("gpu", [("a", (0,)), ("a", (1,))]),
        ("node", [("a", (0,)), ("b", (0,))]),
        ("rack", [("a", (0,)), ("c", (0,))]),
    ],
)
def test_they_are_spread_over_what_the_service_says(over: str, found: list[object], placement: Placement) -> None:
    there = places(f"{NODES}{SERVICE} spread {over}", placement)
    if placement is Placement.BEST_FIT:
        assert there == found
    one, other = there
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    assert one != other
    assert over == "gpu" or one[0] != other[0]
    assert over != "rack" or racks[one[0]] != racks[other[0]]


def test_where_there_is_no_room_apart_they_lie_together() -> None:
    full = NODES + "f1 red training 2 running b   f2 red training 2 running c   f3 red training 1 running a:1\n"
    assert places(full + SERVICE + " spread node") == [("a", (0,)), ("a", (0,))]


def test_of_more_replicas_than_nodes_each_has_as_many() -> None:
    there = places(NODES + SERVICE.replace("x 2..2..4", "x 5..5..5") + " spread node")
    assert sorted(Counter(node for node, _ in there).values()) == [1, 2, 2]


def test_a_further_replica_comes_where_none_is_that_stays() -> None:
    runs = "s1 red inference share 0.5 smem 10000 x 2..3..4 spread node scaling a:0 b:0"
    assert places(NODES + runs) == [("c", (0,))]
    assert places(NODES + runs.replace("x 2..3..4", "x 1..2..4") + " leaves 1") == [("b", (0,))], "b is left"


def test_whole_gpus_are_spread_too_and_quota_bounds_them() -> None:
    whole = "s1 red inference 1 x 3..3..4 pending spread node"
    assert [node for node, _ in places(NODES + whole)] == ["a", "b", "c"]
    bounded = NODES.replace("nominal 6", "nominal 2 borrowing 0")
    assert [node for node, _ in places(bounded + whole.replace("x 3..3", "x 1..3"))] == ["a", "b"]


def test_what_fits_packed_fits_spread_and_nothing_is_given_twice() -> None:
    asked = st.tuples(st.sampled_from(["gpu", "node", "rack", "zone"]), st.integers(1, 5), st.sampled_from([0.2, 0.5]))

    @given(st.lists(asked, min_size=1, max_size=4), st.sampled_from(list(Placement)))
    @settings(max_examples=60, deadline=None)
    def holds(services: list[tuple[str, int, float]], placement: Placement) -> None:
        text = NODES + "\n".join(
            f"s{i} red inference share {share} smem 15000 x 1..{count}..{count} pending spread {over}"
            for i, (over, count, share) in enumerate(services)
        )
        world = parse(text)
        after = world.after(schedule(world, Settings(placement=placement)))
        for kind in (COMPUTE, MEMORY):
            assert (after.columns.gpu[FUTURE_IDLE, kind] <= world.inventory.gpu_capacity[kind]).all()
        if sum(count for _, count, _ in services) <= 6:  # a device has room for two of them at least
            assert all(w.missing == 0 for w in after.workloads.values())

    holds()
