"""Gangs: all or nothing, close together, on one model."""

from dataclasses import replace

import pytest

from scheduler.cycle.schedule import schedule
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import IDLE, Snapshot
from scheduler.model.workload import Assignment, Phase, Workload
from scheduler.state.plan import Plan
from tests.worlds import messages, moves, parse, place, reasons

RACKS = """
    node a1,a2 4 gpus rack a zone z   node b1,b2 4 gpus rack b zone z   node c1 4 gpus rack c zone y
    team red nominal 40
"""


def test_a_gang_waits_when_one_worker_does_not_fit() -> None:
    world = parse("""
        node a,b 2 gpus   team red nominal 8
        x red training 1 running a   r1 red training 1 x 4 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == []
    assert reasons(decisions) == {"r1": Reason.GANG_INCOMPLETE}
    assert messages(decisions)["r1"] == "Needs 4 workers of 1 GPU at once; 3 would fit now."


def test_a_gang_starts_with_as_many_as_fit_from_its_minimum_on() -> None:
    world = parse("node a 3 gpus   team red nominal 8   r1 red training 1 x 2..4 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "a", "a", "a")]


def test_a_gang_starts_with_all_it_wants_when_there_is_room() -> None:
    world = parse("node a 8 gpus   team red nominal 8   r1 red training 1 x 2..4..6 pending")
    assert moves(schedule(world, Settings())) == [place("r1", "a", "a", "a", "a")]


def test_a_gang_takes_one_node_when_one_holds_it() -> None:
    world = parse(RACKS + "x red training 2 running b2   r1 red training 1 x 4 pending")
    assert len(set(_nodes(world))) == 1


def test_a_gang_takes_one_rack_before_several() -> None:
    world = parse(
        RACKS
        + """
        x red training 2 running a1   y red training 2 running b1   z red training 3 running b2
        r1 red training 1 x 6 pending
    """
    )
    assert set(_nodes(world)) == {"a1", "a2"}


def test_a_gang_takes_one_zone_before_several() -> None:
    world = parse(RACKS + "x red training 4 running a1   r1 red training 1 x 10 pending")
    assert set(_nodes(world)) == {"a2", "b1", "b2"}


def test_a_preferred_level_is_tried_before_tighter_ones_and_widened_when_needed() -> None:
    world = parse(
        RACKS
        + """
        x red training 3 running a1   y red training 2 running a2   v red training 3 running b1
        r1 red training 1 x 3 prefer rack pending
    """
    )
    # Rack a has exactly 3 free over two nodes; a whole node elsewhere stays whole.
    assert set(_nodes(world)) == {"a1", "a2"}
    wide = parse(RACKS + "r1 red training 1 x 18 prefer rack pending")
    assert len(_nodes(wide)) == 18


def test_a_required_level_is_never_left() -> None:
    world = parse(
        RACKS + "x red training 1 running a1   y red training 1 running b1   r1 red training 1 x 8 require rack pending"
    )
    decisions = schedule(world, Settings())
    assert reasons(decisions) == {"r1": Reason.TOPOLOGY_PLACEMENT_FAILED}
    assert messages(decisions)["r1"] == "Needs 8 workers of 1 GPU in one rack; there is room only across several."


def test_a_gang_takes_the_fewest_nodes_in_its_domain() -> None:
    world = parse("""
        node a,b,c 4 gpus rack r   team red nominal 12
        x red training 3 running a   y red training 2 running b   r1 red training 1 x 6 pending
    """)
    assert sorted(_nodes(world)) == ["b", "b", "c", "c", "c", "c"]


def test_a_gang_stays_on_one_model_even_if_it_allows_several() -> None:
    world = parse("""
        node a 2 gpus model t4   node b 4 gpus model h100   team red nominal 8
        r1 red training 1 x 3 models t4,h100 pending   r2 red training 1 x 3 models t4,h100 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r1", "b", "b", "b")]
    assert messages(decisions) == {"r2": "Needs 3 workers of 1 GPU at once; 2 would fit now."}


def test_a_gang_of_shares_is_placed_whole() -> None:
    world = parse("""
        node a,b 1 gpus   team red nominal 4
        r1 red training share 0.4 x 4 pending   r2 red training share 0.4 x 2 pending
    """)
    decisions = schedule(world, Settings())
    assert moves(decisions) == [place("r1", "a", "a", "b", "b")]


def test_ranks_are_numbered_from_zero() -> None:
    world = parse("node a 4 gpus   team red nominal 4   r1 red training 1 x 3 pending")
    (placed,) = schedule(world, Settings())
    assert isinstance(placed, Place)
    assert [w.rank for w in placed.workers] == [0, 1, 2]


def _nodes(world: object) -> list[str]:
    (placed,) = (d for d in schedule(world, Settings()) if isinstance(d, Place))  # type: ignore[arg-type]
    return [w.node for w in placed.workers]


def test_the_rest_of_a_gang_goes_to_the_tightest_node_that_takes_it() -> None:
    world = parse("node a,b 2 gpus   node c 1 gpus   team red nominal 8   w red training 1 x 3 pending")
    assert moves(schedule(world, Settings())) == [place("w", "a", "a", "c")]


def found(world: Snapshot, workload: Workload) -> tuple[Assignment, ...]:
    """The places of a whole gang by `find_places` alone, where nobody chooses for single workers."""
    plan, count = Plan(world), workload.gang.count
    flavor = plan.inventory.flavors[0] if workload.ask.milli else None
    return find_places(plan.inventory, workload, Goal(count, count), plan.free[IDLE], flavor) or ()


def spots(world: Snapshot, name: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(place.node, place.gpus) for place in found(world, world.workloads[name])]


@pytest.mark.parametrize("ask", ["2", "1 x 2", "2 x 2", "4"])
def test_what_has_to_be_together_takes_one_nvlink_domain_before_a_fuller_node(ask: str) -> None:
    world = parse(f"""
        node a 8 gpus nvlink 4   node b 4 gpus nvlink 1   team red nominal 20
        x red training 3 firm running a:0,1,2   w red training {ask} pending
    """)
    assert {node for node, _ in spots(world, "w")} == {"a"}


@pytest.mark.parametrize(("words", "node"), [("", "b"), ("require nvlink", "a")])
def test_one_device_has_nothing_to_keep_together_and_takes_the_fullest_node(words: str, node: str) -> None:
    world = parse(f"""
        node a 8 gpus nvlink 4   node b 4 gpus nvlink 2   team red nominal 20
        x red training 3 firm running a:0,1,2   w red training 1 {words} pending
    """)
    assert [name for name, _ in spots(world, "w")] == [node]


def test_a_gang_without_gpus_strands_none() -> None:
    world = parse("""
        cpu-node c cpu 4   node a 4 gpus cpu 64   team red nominal 4
        w red training cpu 2 x 3 pending
    """)
    assert moves(schedule(world, Settings())) == [place("w", "c", "c", "a")]
    near = parse("cpu-node c,d cpu 4   team red   x red training cpu 2 running c   w red training cpu 1 x 3 pending")
    together = replace(near.workloads["w"], topology=replace(near.workloads["w"].topology, prefer=1))
    assert {place.node for place in found(near, together)} == {"d"}


def test_shares_of_a_gang_go_to_its_own_nodes_and_fill_one_device_after_another() -> None:
    # Node a holds all four, two on each device; b's device alone would be the better fit for the first of them.
    world = parse("""
        node a 2 gpus nvlink 1   node b 1 gpus nvlink 1   team red nominal 4
        x red notebook share 0.2 firm running a:0   y red notebook share 0.2 firm running a:1
        z red notebook share 0.5 firm running b:0   w red training share 0.4 x 4 pending
    """)
    assert spots(world, "w") == [("a", (0,)), ("a", (0,)), ("a", (1,)), ("a", (1,))]


def test_shares_of_a_gang_stay_in_one_nvlink_domain() -> None:
    # Devices 2 and 3 are another domain, which takes one only; its device is the better fit for it.
    world = parse("""
        node a 4 gpus nvlink 2   team red nominal 4
        x red notebook share 0.3 firm running a:0   y red notebook share 0.35 firm running a:2
        z red training 1 firm running a:3   w red training share 0.6 x 2 pending
    """)
    assert spots(world, "w") == [("a", (0,)), ("a", (1,))]


def test_shares_of_a_gang_leave_each_other_compute_and_memory() -> None:
    for ask in ("share 0.4", "share 0.1 smem 8000"):
        world = parse(f"node a 2 gpus   team red nominal 4   w red training {ask} x 3 pending")
        assert spots(world, "w") == [("a", (0,)), ("a", (0,)), ("a", (1,))]


def test_no_node_takes_more_shares_of_a_gang_than_its_cores_allow() -> None:
    world = parse("""
        node a 1 gpus cpu 4 rack r   node b 2 gpus cpu 8 rack r   team red nominal 4
        w red training share 0.1 cpu 2 x 5 pending
    """)
    assert [node for node, _ in spots(world, "w")].count("b") == 4


def test_ranks_go_on_where_this_attempt_ended_and_begin_anew_with_the_next() -> None:
    world = parse("node a 4 gpus   team red nominal 4   r1 red training 1 x 2 pending")
    ended = replace(world.workloads["r1"], next_rank=7)
    assert [place.rank for place in found(world, ended)] == [0, 1]
    assert [place.rank for place in found(world, replace(ended, phase=Phase.RUNNING))] == [7, 8]
    seated = replace(ended, phase=Phase.RUNNING, placement=(Assignment(8, "a", (0,)),))
    assert [place.rank for place in found(world, seated)] == [9, 10]
