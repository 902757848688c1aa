"""One simulated cluster through its file: the same in memory, after a crash, and from several processes."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controlplane.cluster.port import ClusterUnreachable, PodPhase
from controlplane.cluster.simulated import SimulatedCluster
from controlplane.cluster.store import ClusterStore
from tests.controlplane.simulation import cluster, finish, gang, pod, seen, share, to_running, training

NOTEBOOK = {"type": "notebook", "simulated": {"duration": 700}}
SERVICE = {"type": "inference", "objective": {"p95_latency": "250ms"}}
FILES = (
    training(300.0),
    training(500.0, profile="unlucky"),
    share(1.0, **training(400.0, profile="light")),
    share(0.6, **NOTEBOOK),
    share(1.0, **SERVICE),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.sqlite3"


@pytest.fixture
def open_cluster(path: Path) -> Iterator[object]:
    stores = []

    def open_one() -> SimulatedCluster:
        stores.append(ClusterStore(path))
        return cluster(stores[-1], **CONDITIONS)

    yield open_one
    for store in stores:
        store.close()


CONDITIONS = {"node_mtbf_seconds": 40_000.0, "node_repair_seconds": 300.0, "keep_seconds": 500.0, "keep_ended": 5}


def whole(world: SimulatedCluster) -> tuple[object, ...]:
    """All that can be seen of a cluster."""
    everything = world.observe(None)
    uids = sorted({p.workload for p in everything.pods})
    logs = tuple(world.logs(p.workload, p.attempt, None, 1000, None) for p in everything.pods)
    return everything, world.gpus(), world.training(uids), world.services(uids), logs, world.next_event()


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "start", "gang", "stop", "resize", "lose", "restore", "cordon", "gpu"]),
        st.integers(0, 15),
        st.integers(0, 120),
    ),
    max_size=40,
)


def act(world: SimulatedCluster, number: int, step: Step) -> None:
    """One command, and then time passes."""
    verb, which, seconds = step
    node, index = "abcd"[which % 4], which // 4
    match verb:
        case "start":
            file = FILES[which % len(FILES)]
            milli = 500 if "resources" in file else 1000
            world.start([pod(f"w{number}", file, f"{node}:{index}", milli=milli)])
        case "gang":
            file = training(400.0, workers=2)
            world.start(gang(f"w{number}", file, f"{node}:{index}", f"{'abcd'[(which + 1) % 4]}:{index + 4}"))
        case "stop":
            world.stop(f"w{max(0, number - 1 - which)}", 1, [0, 1], float(which))
        case "resize":
            world.resize(f"w{max(0, number - 1 - which)}", 1, 0, 100 * (which + 1), 1024)
        case _:
            harm(world, verb, node, index)
    world.advance(world.now() + seconds)


def harm(world: SimulatedCluster, verb: str, node: str, index: int) -> None:
    match verb:
        case "lose":
            world.lose_node(node)
        case "restore":
            world.restore_node(node)
        case "cordon":
            world.cordon(node, bool(index % 2))
        case "gpu":
            world.lose_gpu(node, index)


@given(steps)
@settings(max_examples=40, deadline=None)
def test_it_does_not_matter_in_which_steps_time_passes(plan: list[Step]) -> None:
    worlds = [cluster(**CONDITIONS), cluster(**CONDITIONS)]
    for number, step in enumerate(plan):
        for world in worlds:
            act(world, number, (step[0], step[1], 0))
        worlds[0].advance(worlds[0].now() + step[2])
        for _ in range(step[2]):
            worlds[1].advance(worlds[1].now() + 1)
    assert whole(worlds[0]) == whole(worlds[1])


FORGOTTEN_AT_ONCE = [("start", 0, 79), ("start", 0, 120), ("lose", 1, 120), ("gang", 0, 0), ("start", 0, 20)]


@given(steps)
@example(FORGOTTEN_AT_ONCE + 4 * [("start", 0, 120)])  # two that ended in one second: which is forgotten first?
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_that_share_a_file_are_one_cluster(tmp_path_factory: pytest.TempPathFactory, plan: list[Step]) -> None:
    path = tmp_path_factory.mktemp("shared") / "cluster.sqlite3"
    alone = cluster(**CONDITIONS)
    stores = [ClusterStore(path), ClusterStore(path)]
    shared = [cluster(store, **CONDITIONS) for store in stores]
    try:
        for number, step in enumerate(plan):
            act(alone, number, step)
            act(shared[number % 2], number, (step[0], step[1], 0))
            shared[1 - number % 2].advance(alone.now())
        assert whole(shared[0]) == whole(shared[1]) == whole(alone)
        stores.append(ClusterStore(path))
        assert whole(cluster(stores[-1], **CONDITIONS)) == whole(alone)
    finally:
        for store in stores:
            store.close()


def test_a_cluster_goes_on_where_it_was(open_cluster) -> None:  # type: ignore[no-untyped-def]
    world = open_cluster()
    world.start([pod("w", training(1000.0)), pod("s", SERVICE, "b:0")])
    to_running(world, "w-1-0", "s-1-0")
    world.advance(world.now() + 250)
    cursor = world.observe(None).cursor
    again = open_cluster()
    assert whole(again) == whole(world)
    assert again.observe(cursor).pods == ()
    again.stop("w", 1, [0], 30.0)
    stopped = finish(world, "w-1-0")
    assert stopped.reason == "Stopped"
    assert stopped == seen(again, "w-1-0") == seen(open_cluster(), "w-1-0")


def test_an_attempt_that_failed_has_no_future_in_the_file_either(open_cluster) -> None:  # type: ignore[no-untyped-def]
    world = open_cluster()
    world.start([pod("w", training(300.0, fail_at=0.5) | {"checkpoint": {"interval": "1h"}})])  # none is written
    assert finish(world, "w-1-0").phase == PodPhase.FAILED
    again = open_cluster()
    assert again.next_event() == world.next_event()  # a node's, far ahead
    assert (again.next_event() or 0.0) > again.now()


def test_nodes_given_later_do_not_change_a_cluster_that_exists(open_cluster, path: Path) -> None:  # type: ignore[no-untyped-def]
    world = open_cluster()
    world.remove_node("d")
    assert {n.name for n in open_cluster().observe(None).nodes} == {"a", "b", "c"}


def test_what_was_forgotten_is_forgotten_by_all(open_cluster) -> None:  # type: ignore[no-untyped-def]
    one, other = open_cluster(), open_cluster()
    for i in range(8):
        one.start([pod(f"w{i}", training(100.0))])
        finish(one, f"w{i}-1-0")
        other.observe(None)
    one.advance(one.now() + 1000)
    assert {p.workload for p in other.observe(None).pods} == {f"w{i}" for i in range(3, 8)}
    assert whole(open_cluster()) == whole(one) == whole(other)


def test_a_change_that_fails_leaves_no_trace(open_cluster) -> None:  # type: ignore[no-untyped-def]
    world = open_cluster()
    before = whole(world)
    with pytest.raises(ValueError, match="bad"):
        world.start([pod("good", training()), pod("bad", {"type": "bad"})])
    assert whole(world) == before == whole(open_cluster())
    world.start([pod("good", training())])
    assert seen(world, "good-1-0").phase == PodPhase.PENDING


def test_a_file_that_cannot_be_used_is_an_unreachable_cluster(open_cluster, path: Path) -> None:  # type: ignore[no-untyped-def]
    world = open_cluster()
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE row")
    with pytest.raises(ClusterUnreachable, match="cannot be used"):
        world.start([pod("w", training())])


def test_nothing_new_writes_nothing(open_cluster, path: Path) -> None:  # type: ignore[no-untyped-def]
    world = open_cluster()
    world.start([pod("w", training())])
    with sqlite3.connect(path) as file:
        version = file.execute("SELECT version FROM head").fetchone()
        world.start([pod("w", training())])
        world.stop("nobody", 1, [0], 30.0)
        world.cordon("a", False)
        world.advance(world.now())
        assert file.execute("SELECT version FROM head").fetchone() == version


WORKER = """
import signal
import sys
from controlplane.cluster.store import ClusterStore
from tests.controlplane.simulation import cluster, pod, training
world = cluster(ClusterStore(sys.argv[1]))
print("ready", flush=True)
for number in range(1000):  # fewer than a cluster keeps: on a busy machine it may be far ahead of its reader
    node, gpu = "abcd"[number // 8 % 4], number % 8
    world.start([pod(f"w{number}", training(40.0), f"{node}:{gpu}")])
    world.advance(world.now() + 5)
    print(number, world.now(), flush=True)
signal.pause()  # until the kill
"""


@pytest.mark.parametrize("after", [1, 7, 40])
def test_what_was_done_before_a_kill_is_done(path: Path, after: int) -> None:
    """The worker tells what is done; killed at any moment, at most one command more has been kept than was told."""
    command = [sys.executable, "-c", WORKER, str(path)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert worker.stdout is not None
    told = [worker.stdout.readline().split() for _ in range(after + 1)][1:]
    os.kill(worker.pid, signal.SIGKILL)
    told += [line.split() for line in worker.stdout.read().splitlines() if len(line.split()) == 2]
    worker.wait()
    last, now = int(told[-1][0]), float(told[-1][1])

    store = ClusterStore(path)
    world = cluster(store)
    found = world.observe(None)
    assert now <= world.now() <= now + 5
    assert len(found.pods) in (last + 1, last + 2)
    assert world.overcommits == 0
    alone = cluster()
    for number in range(len(found.pods)):
        alone.start([pod(f"w{number}", training(40.0), f"{'abcd'[number // 8 % 4]}:{number % 8}")])
        alone.advance(min(alone.now() + 5, world.now()))
    assert whole(world) == whole(alone)
    store.close()
