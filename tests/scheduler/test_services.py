"""Services: replicas are independent and may be missing for a while."""

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.model.decision import EvictReason, Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, IDLE
from tests.worlds import evict, facts, moves, parse, place, reasons


def test_as_many_replicas_start_as_fit() -> None:
    world = parse("node a 2 gpus   team red nominal 8   s red inference 1 x 1..4 pending")
    assert moves(schedule(world, Settings())) == [place("s", "a", "a")]


def test_missing_replicas_are_added_to_a_running_service() -> None:
    world = parse("node a 4 gpus   team red nominal 8   s red inference 1 x 1..3 running a:0")
    assert moves(schedule(world, Settings())) == [place("s", "a", "a")]


def test_a_service_that_has_all_replicas_wants_nothing() -> None:
    world = parse("node a 4 gpus   team red nominal 8   s red inference 1 x 2 running a")
    assert schedule(world, Settings()) == ()


def test_replicas_may_use_several_models() -> None:
    world = parse("""
        node a 1 gpus model t4   node b 4 gpus model h100   team red nominal 8
        s red inference 1 x 1..3 models t4,h100 pending
    """)
    assert moves(schedule(world, Settings())) == [place("s", "a", "b", "b")]


def test_new_ranks_are_the_lowest_that_no_worker_has() -> None:
    world = parse("node a 8 gpus   team red nominal 8   s red inference 1 x 1..4 running a:0 a:1 a:2 leaves 1")
    (placed,) = schedule(world, Settings())
    assert isinstance(placed, Place)
    assert [w.rank for w in placed.workers] == [3, 4]


def test_a_service_that_cannot_grow_says_why_and_goes_on_running() -> None:
    world = parse("node a 1 gpus   team red nominal 8   s red inference 1 x 1..2 running a:0")
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"s": Reason.WAITING_FOR_CAPACITY}
    assert world.after(decisions).workloads["s"].phase == "Running"


def test_a_service_grows_into_the_place_of_its_victim_without_holding_it_yet() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        t red training 1 running a:1   s red inference 1 x 1..2 priority 100 running a:0
    """)
    after = world.after(schedule(world, Settings()))
    grown = after.workloads["s"]
    assert [(w.rank, w.reserved) for w in grown.placement] == [(0, False), (1, True)]
    assert grown.after == ("t",)
    assert after.columns.gpu[IDLE, 0].tolist() == after.columns.gpu[FUTURE_IDLE, 0].tolist() == [1000, 1000]


def test_a_service_waits_for_its_victims_before_it_grows_further() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        t red training 1 running a:1   s red inference 1 x 1..3 priority 100 running a:0
    """)
    after = world.after(schedule(world, Settings()))
    assert reasons(schedule(after, Settings())) == {"s": Reason.WAITING_FOR_PREEMPTED_WORKLOADS}


def test_a_service_takes_free_room_first_and_makes_others_leave_in_the_next_round() -> None:
    world = parse("""
        node a 3 gpus   team red nominal 3
        t red training 1 running a:1   s red inference 1 x 1..3 priority 100 running a:0
    """)
    first = schedule(world, Settings())
    assert facts(first) == [place("s", "a")]
    assert moves(schedule(world.after(first), Settings()))[-1] == place("s", "a", after=("t",))


def test_a_service_that_has_to_leave_is_not_given_replicas_nor_a_reason() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 2
        s red inference 2 x 1..2 running a:0,1   n red inference 1 priority 100 pending
    """)
    assert facts(schedule(world, Settings())) == [
        evict("s", EvictReason.PREEMPTED, "n"),
        place("n", "a", after=("s",)),
    ]


def test_replicas_fill_one_node_after_another() -> None:
    world = parse("node a,b 2 gpus   team red nominal 8   w red inference 1 x 3 pending")
    assert moves(schedule(world, Settings())) == [place("w", "a", "a", "b")]


@pytest.mark.parametrize(("words", "starts"), [("", True), ("require nvlink", False)])
def test_a_replica_spans_nvlink_domains_only_where_it_may(words: str, starts: bool) -> None:
    world = parse(f"""
        node a 4 gpus nvlink 2   team red nominal 8
        x red training 1 firm running a:0   y red training 1 firm running a:2   w red inference 2 {words} pending
    """)
    assert (moves(schedule(world, Settings())) == [place("w", "a")]) is starts
