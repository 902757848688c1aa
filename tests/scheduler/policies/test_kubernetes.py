"""Kubernetes without Weft, and with coscheduling."""

from dataclasses import replace

from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase
from scheduler.policies import decide
from tests.worlds import moves, parse, place

NATIVE, GANG = Settings(policy="native-k8s"), Settings(policy="k8s+gang")


def held(world: Snapshot) -> dict[str, int]:
    return {w.id: len(w.placement) for w in world.workloads.values()}


def test_gangs_of_one_moment_interleave_and_each_holds_a_part() -> None:
    world = parse("""
        node a 4 gpus
        team red
        g1 red training 1 x 4 since 500
        g2 red training 1 x 4 since 500
    """)
    assert held(world.after(decide(world, NATIVE))) == {"g1": 2, "g2": 2}
    assert moves(decide(world, GANG)) == [place("g1", "a", "a", "a", "a")]


def test_a_gang_submitted_earlier_gets_its_pods_first_and_the_later_one_holds_what_is_left() -> None:
    world = parse("""
        node a 4 gpus
        team red
        g1 red training 1 x 3 since 500
        g2 red training 1 x 3 since 501
    """)
    assert held(world.after(decide(world, NATIVE))) == {"g1": 3, "g2": 1}


def test_a_partial_gang_gets_its_missing_pods_when_room_comes() -> None:
    world = parse("""
        node a 4 gpus
        team red
        g1 red training 1 x 4 admitted a:0 a:1
    """)
    after = world.after(decide(world, NATIVE))
    assert held(after) == {"g1": 4}
    assert sorted(a.rank for a in after.workloads["g1"].placement) == [0, 1, 2, 3]


def test_pods_spread_to_the_node_with_the_most_cpu_and_memory_left() -> None:
    world = parse("""
        node a,b 4 gpus
        team red
        r1 red training 1 cpu 8 running a
        j1 red training 1 cpu 8
    """)
    assert moves(decide(world, NATIVE)) == moves(decide(world, GANG)) == [place("j1", "b")]


def test_among_equals_the_node_with_the_most_idle_gpus_wins() -> None:
    world = parse("""
        node a,b 4 gpus
        team red
        r1 red training 1 running a
        j1 red training 1
    """)
    assert moves(decide(world, NATIVE)) == [place("j1", "b")]


def test_a_share_takes_a_whole_gpu() -> None:
    world = parse("""
        node a 2 gpus
        team red
        n1 red notebook share 0.2   n2 red notebook share 0.2   n3 red notebook share 0.2
    """)
    for rules in (NATIVE, GANG):
        after = world.after(decide(world, rules))
        gpus = [w.placement[0].gpus for w in after.workloads.values() if w.placement]
        assert sorted(gpus) == [(0,), (1,)]


def test_who_does_not_fit_holds_nobody_up_and_nobody_is_preempted() -> None:
    world = parse("""
        node a 4 gpus
        team red nominal 4   team blue nominal 0
        r1 blue training 3 running a
        big red training 4 priority 300
        small red training 1
    """)
    for rules in (NATIVE, GANG):
        assert moves(decide(world, rules)) == [place("small", "a")]


def test_coscheduling_starts_the_least_of_an_elastic_gang_or_more() -> None:
    world = parse("""
        node a 4 gpus
        team red
        r1 red training 1 running a
        g1 red training 1 x 2..4
    """)
    assert moves(decide(world, GANG)) == [place("g1", "a", "a", "a")]


def test_a_required_rack_is_kept_as_pod_affinity_keeps_it() -> None:
    world = parse("""
        node a,b 2 gpus rack r1
        node c 4 gpus rack r2
        team red
        r1 red training 1 running c
        g1 red training 1 x 4 require rack
    """)
    assert moves(decide(world, GANG)) == [place("g1", "a", "b", "a", "b")]
    grown = world.after(decide(world, NATIVE))
    nodes = {a.node for a in grown.workloads["g1"].placement}
    assert nodes <= {"a", "b"} or nodes <= {"c"}


def test_a_gang_that_runs_whole_is_left_alone() -> None:
    world = parse("""
        node a 4 gpus
        team red
        g1 red training 1 x 2 running a
    """)
    assert decide(world, NATIVE) == ()
    ready = replace(world.workloads["g1"], phase=Phase.STARTING, started_at=None)
    assert decide(world.replace(changed=(ready,)), GANG) == ()
