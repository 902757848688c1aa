"""What the workers and nodes of the simulated cluster say of steps: slow nodes, disks that are read, lines."""

import pytest

from controlplane.cluster.physics import TrainingProfile
from controlplane.cluster.simulated import Conditions, SimulatedCluster
from scheduler.model.workload import Kind
from tests.controlplane.simulation import NODES, PROFILES, gang, to_running, training

READER = TrainingProfile("reader", step_seconds=0.2, sync_seconds=0.01, input_disk_seconds=0.15)


def world(**conditions: object) -> SimulatedCluster:
    profiles = {**PROFILES, Kind.TRAINING: (*PROFILES[Kind.TRAINING], READER)}
    return SimulatedCluster(NODES, Conditions(**conditions), profiles)  # type: ignore[arg-type]


def steps(cluster: SimulatedCluster) -> tuple[float, list[float], list[float]]:
    """Seconds of a step, and each worker's wait for input and exchange, parts of it."""
    told = cluster.workers(["w"])
    (use,) = cluster.training(["w"])
    assert use.step_seconds is not None
    assert {one.step_seconds for one in told} == {use.step_seconds}
    return use.step_seconds, [one.data_wait_ratio or 0.0 for one in told], [one.sync_ratio or 0.0 for one in told]


def test_a_slow_node_slows_its_gang_and_the_others_wait_for_its_worker() -> None:
    seconds = {}
    for factor in (1.0, 1.8):
        cluster = world(slow_nodes={"b": factor})
        cluster.start(gang("w", training(), "a:0", "b:0", "a:1"))
        to_running(cluster, "w-1-0", "w-1-1", "w-1-2")
        seconds[factor], _, sync = steps(cluster)
    assert seconds[1.8] > 1.4 * seconds[1.0]
    assert sync[1] + 0.2 < min(sync[0], sync[2])


def test_gangs_that_read_more_than_their_disk_gives_wait_for_it_and_no_cpu_is_held_back() -> None:
    cluster = world()
    cluster.start(gang("w", training(profile="reader"), "a:0", "a:1", "b:0"))
    to_running(cluster, "w-1-0", "w-1-1", "w-1-2")
    seconds, waits, _ = steps(cluster)
    assert waits[0] > 0.15
    told = {node.node: node for node in cluster.nodes()}
    assert told["a"].disk_ratio == pytest.approx(1.0, abs=0.1)
    assert told["b"].disk_ratio == pytest.approx(0.5, abs=0.05)
    assert told["c"].disk_ratio == 0.0
    assert all(pod.throttled_ratio == 0.0 for pod in cluster.pods(["w"]))
    assert [one.io_ratio for one in cluster.workers(["w"])] == waits


def test_only_nodes_that_exchange_with_others_have_a_busy_line() -> None:
    cluster = world()
    cluster.start([*gang("w", training(), "a:0", "b:0"), *gang("v", training(), "c:0", "c:1")])
    to_running(cluster, "w-1-0", "w-1-1", "v-1-0", "v-1-1")
    lines = {node.node: node.line_ratio or 0.0 for node in cluster.nodes()}
    assert lines["a"] == lines["b"] > 0.1
    assert lines["c"] == lines["d"] == 0.0
