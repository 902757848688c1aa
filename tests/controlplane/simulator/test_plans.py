"""A plan on the one replay engine: the life cycle brings about what it says, and no GPU is held twice."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controlplane.simulator.replay.plans import Plans
from scheduler.model.workload import Phase

NODES = {"n0": 4, "n1": 4}
NAMES = ("a", "b", "c")
places = st.dictionaries(st.sampled_from(sorted(NODES)), st.integers(1, 4), max_size=2)
changes = st.dictionaries(st.sampled_from(NAMES), places, max_size=3)


def plans(told: list[str] | None = None) -> Plans:
    """Three trainings that wait."""
    found = Plans(NODES, (told if told is not None else []).append)
    for name in NAMES:
        found.submit(name)
    return found


def test_each_training_runs_where_the_plan_says_and_the_others_stay() -> None:
    told: list[str] = []
    one = plans(told)
    one.follow({"a": [("n0", 3)], "b": [("n1", 2), ("n0", 1)]})
    one.follow({"b": [("n1", 4)]})

    assert [one.held(name) for name in NAMES] == [{"n0": 3}, {"n1": 4}, {}]
    assert told == ["a", "b", "b", "b"]  # it started, left, and started again
    running = [one.replay.get(name) for name in NAMES]
    assert [w and (w.phase, w.attempt) for w in running] == [(Phase.RUNNING, 1), (Phase.RUNNING, 2), (Phase.QUEUED, 0)]


def test_two_may_change_places_at_once() -> None:
    one = plans()
    one.follow({"a": [("n0", 4)], "b": [("n1", 4)]})
    one.follow({"a": [("n1", 4)], "b": [("n0", 4)]})

    assert [one.held(name) for name in ("a", "b")] == [{"n1": 4}, {"n0": 4}]


def test_what_has_ended_leaves_its_gpus_to_others() -> None:
    one = plans()
    one.follow({"a": [("n0", 4)]})
    one.end("a")
    one.follow({"b": [("n0", 4)]})

    assert one.replay.get("a") is None
    assert one.held("b") == {"n0": 4}


def test_what_there_is_not_enough_of_the_later_ones_go_without() -> None:
    one = plans()
    one.follow({"a": [("n0", 3)], "b": [("n0", 2)], "c": [("n0", 1)]})

    assert [one.held(name) for name in NAMES] == [{"n0": 3}, {}, {"n0": 1}]


@given(st.lists(changes, max_size=6))
def test_no_gpu_is_held_twice_and_nobody_holds_a_part_of_its_plan(
    steps: list[dict[str, dict[str, int]]],
) -> None:
    one = plans()
    for step in steps:
        one.follow({name: sorted(where.items()) for name, where in step.items()})
        workloads = [found for name in NAMES if (found := one.replay.get(name)) is not None]
        devices = Counter((worker.node, gpu) for w in workloads for worker in w.placement for gpu in worker.gpus)
        assert all(count == 1 for count in devices.values())
        assert all(one.held(name) in ({}, where) for name, where in step.items())
