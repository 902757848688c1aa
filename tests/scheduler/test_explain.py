"""Explanations and previews say what the next round does."""

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.explain.explanation import Explanation, Status, explain, submitted
from scheduler.model.decision import Place, Reason, Wait
from scheduler.model.settings import Settings
from scheduler.model.workload import Kind, ResourceRequest, Workload
from tests.worlds import facts, parse, place


def checks(explanation: Explanation) -> dict[str, tuple[str, str]]:
    return {check.name: (check.status.value, check.message) for check in explanation.checks}


def test_a_waiting_workload_is_explained_check_by_check() -> None:
    world = parse("""
        node a 4 gpus   team red nominal 4   team blue nominal 2
        x red training 3 running a   w blue training 2 pending
    """)
    told = explain(world, "w", Settings())
    assert (told.reason, told.message) == (
        Reason.WAITING_FOR_CAPACITY,
        "Needs 2 GPUs on one node; the best node has 1 free.",
    )
    assert checks(told) == {
        "Quota": ("ok", "Team blue has 0 of 2 in gpu allocated; it may use more."),
        "Order": ("ok", "0 ahead of it in the queue, 0 of them of team blue."),
        "Placement": ("fails", "Needs 2 GPUs on one node; the best node has 1 free."),
        "Preemption": (
            "fails",
            "0 workloads of its team have lower priority and may be preempted; no team borrows from its team's quota.",
        ),
    }


def test_who_waits_behind_another_fails_the_order_check() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 4
        x red training 1 running a   v red training 1 pending   w red training 1 pending
    """)
    assert checks(explain(world, "w", Settings()))["Order"] == ("fails", "Behind [[w:v]] (same request).")


def test_what_can_never_start_leaves_the_other_checks_unknown() -> None:
    world = parse("node a 1 gpus model t4   team red nominal 4   w red training 1 models h100 pending")
    told = explain(world, "w", Settings())
    assert {c.name: c.status for c in told.checks} == {
        "Quota": Status.UNKNOWN,
        "Order": Status.UNKNOWN,
        "Placement": Status.FAILS,
        "Preemption": Status.UNKNOWN,
    }


def test_who_would_be_placed_is_told_where_and_who_leaves() -> None:
    world = parse("""
        node a 1 gpus   team red nominal 4
        x red training 1 running a   w red training 1 priority 100 pending
    """)
    told = explain(world, "w", Settings())
    assert told.reason is None
    assert told.message == "Is placed on a in the next round."
    assert [v.workload for v in told.victims] == ["x"]
    assert facts([told.place]) == [place("w", "a", after=("x",))]  # type: ignore[list-item]


def test_who_has_a_reservation_is_told_whom_it_waits_for() -> None:
    world = parse(
        "node a 1 gpus   team red nominal 4   x red training 1 leaving a   w red training 1 reserved a:0 after x"
    )
    assert explain(world, "w", Settings()).reason is Reason.WAITING_FOR_PREEMPTED_WORKLOADS


def test_who_runs_waits_for_nothing() -> None:
    world = parse("node a 1 gpus   team red nominal 4   x red training 1 running a")
    assert explain(world, "x", Settings()) == Explanation("x", None, "Is Running.")


def test_who_was_given_its_places_waits_for_its_pods() -> None:
    world = parse("node a 2 gpus   team red nominal 4   x red training 1 x 2 starting a   y red training 1 admitted")
    told = explain(world, "x", Settings())
    assert (told.reason, told.message) == (
        Reason.WAITING_FOR_PODS_READY,
        "Has its 2 places; waits until its pods run.",
    )


def test_whose_turn_comes_in_a_later_round_is_told_so() -> None:
    world = parse("node a 2 gpus   team red nominal 4   v red training 1 pending   w red training 1 pending")
    few = Settings(max_changes=1)
    assert explain(world, "v", few).place is not None
    told = explain(world, "w", few)
    assert (told.reason, told.position) == (Reason.PENDING_EVALUATION, None)
    assert explain(world, "w", Settings()).reason is None


def test_who_is_unknown_cannot_be_explained() -> None:
    with pytest.raises(KeyError):
        explain(parse("node a 1 gpus   team red nominal 1"), "nobody", Settings())


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_a_preview_is_what_the_next_round_decides(gpus: int) -> None:
    world = parse("""
        node a 3 gpus   team red nominal 1   team blue nominal 2
        r1 red training 1 x 2 running a   b1 blue training 2 pending
    """)
    new = Workload("new", "new", "red", Kind.TRAINING, ResourceRequest(gpus=gpus), seq=0)
    after = submitted(world, new)
    seen = explain(after, "new", Settings())
    mine = [d for d in schedule(after, Settings()) if d.workload == "new"]
    told = None if seen.reason is None else Wait("new", 1, seen.reason, seen.message, seen.numbers)
    assert [seen.place or told] == mine
    assert "new" not in world.workloads
    assert after.workloads["new"].seq == 3


def test_a_preview_names_the_victims() -> None:
    world = parse("node a 1 gpus   team red nominal 1   x red training 1 running a")
    new = Workload("n", "n", "red", Kind.TRAINING, ResourceRequest(gpus=1), priority=9)
    seen = explain(submitted(world, new), "n", Settings())
    assert [v.workload for v in seen.victims] == ["x"]
    assert isinstance(seen.place, Place)


def test_a_preview_of_what_waits_says_why() -> None:
    world = parse("node a 1 gpus   team red nominal 1   x red training 1 running a")
    new = Workload("n", "n", "red", Kind.TRAINING, ResourceRequest(gpus=2))
    seen = explain(submitted(world, new), "n", Settings())
    assert seen.place is None
    assert seen.reason is Reason.NO_MATCHING_FLAVOR


def test_who_gives_workers_is_told_like_who_leaves() -> None:
    world = parse("""
        node a 3 gpus   team red nominal 3
        low red training 1 running a   gang red training 1 x 1..2 running a
        high red training 2 priority 100 pending
    """)
    found = explain(world, "high", Settings())
    assert [(type(d).__name__, d.workload) for d in found.victims] == [("Shrink", "gang"), ("Evict", "low")]
    assert found.checks[-1].message == "1 workload is preempted. 1 elastic gang is shrunk."
