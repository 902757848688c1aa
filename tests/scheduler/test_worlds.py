"""The text worlds of the tests say what they mean."""

import pytest

from gpushare.gpu import Share
from scheduler.model.decision import Evict, EvictReason, Place, Reason, Shrink, Wait
from scheduler.model.team import Quota, Team
from scheduler.model.workload import Gang, Kind, Level, Phase
from tests.worlds import evict, facts, parse, place, wait


def test_a_node_has_what_its_line_says() -> None:
    (node,) = parse(
        "node a 8 gpus model h100 memory 80000 pool big rack r zone z nvlink 4 cpu 64 ram 9 lost 3,5 down"
    ).inventory.nodes
    assert (node.name, node.model, node.pool, node.gpus, node.gpu_memory) == ("a", "h100", "big", 8, 80000)
    assert (node.rack, node.zone, node.nvlink, node.cpu_milli, node.memory) == ("r", "z", 4, 64000, 9)
    assert (node.lost, node.ready, node.schedulable) == ((3, 5), False, True)


def test_teams_and_quotas_are_in_milli_gpu() -> None:
    world = parse("node a 1 gpus   team top   team red nominal 1.5 borrowing 0.5 lending 1 parent top")
    assert world.teams == (Team("top"), Team("red", "top"))
    assert world.quotas == (Quota("red", "gpu", 1500, 500, 1000),)


def test_a_workload_has_what_its_line_says() -> None:
    world = parse("""
        at 500
        node a 2 gpus   team red nominal 4
        n red notebook share 0.5 limit 0.8 smem 4000 priority 7 firm pending since 100 require rack prefer node unmet d
        s red inference 1 x 1..2..4 running a:1 started 300 checkpointed 400 preempted 10 by q preempted 20 by r
    """)
    n, s = world.workloads["n"], world.workloads["s"]
    assert (n.ask.share, n.priority, n.preemptible, n.queued_at) == (Share(500, 800, 4000), 7, False, 100)
    assert (n.topology.require, n.topology.prefer, n.unmet, n.phase) == (Level.RACK, Level.NODE, ("d",), Phase.QUEUED)
    assert (s.kind, s.gang, s.placement[0].gpus, s.started_at) == (Kind.INFERENCE, Gang(2, 1, 4), (1,), 300)
    assert (s.preempted_at, s.preempted_by, s.missing) == ((10, 20), ("q", "r"), 1)


def test_places_without_devices_take_the_lowest_that_are_free() -> None:
    world = parse("node a 4 gpus   team red nominal 4   x red training 1 running a:1   y red training 1 x 2 running a")
    assert [a.gpus for a in world.workloads["y"].placement] == [(0,), (2,)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("node a 1 gpus clever", "'clever' is no word"),
        ("node a 1 gpus   team red   x red training 2 running a", "a has no room for it"),
    ],
)
def test_a_wrong_world_says_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse(text)


def test_decisions_are_told_as_facts() -> None:
    world = parse("node a 1 gpus   team red nominal 1   x red training 1 running a")
    worker = world.workloads["x"].placement
    assert facts(
        [
            Place("x", 1, worker, ("z", "y")),
            Evict("x", 1, EvictReason.RECLAIMED, "y"),
            Wait("x", 1, Reason.SUSPENDED, ""),
            Shrink("x", 1, (0, 2)),
        ]
    ) == [
        place("x", "a", after=("y", "z")),
        evict("x", EvictReason.RECLAIMED, "y"),
        wait("x", Reason.SUSPENDED),
        ("shrink", "x", "0", "2"),
    ]
