"""What `turnaround` and `admission` measure with: hand-overs as a watch saw them, and a server in memory."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from controlplane.benchmarks.harness.figure import BenchmarkError, quantile
from controlplane.benchmarks.scheduling import podless
from controlplane.benchmarks.scheduling.podless import RUN_FOR
from controlplane.benchmarks.scheduling.podwatch import Course
from controlplane.benchmarks.scheduling.turnaround import Step, handovers, submissions
from controlplane.benchmarks.serving.watched import WatchedCluster
from controlplane.cluster.port import PodPhase, PodSpec
from controlplane.testbed.processes import wait_until

A, B = ("node-0", "0"), ("node-0", "1")


def test_a_hand_over_goes_from_the_end_of_a_pod_to_running_of_the_next_on_its_gpu():
    courses = [
        Course("next", A, 11.0, 11.5, 20.0),
        Course("first", A, 1.0, 2.0, 10.0),
        Course("elsewhere", B, 1.0, 2.0, 10.9),
        Course("waits", ("", "")),
    ]
    assert handovers(courses, since=10.0) == [Step(1.0, 1.5)]
    assert handovers(courses, since=12.0) == []


@pytest.mark.parametrize("ended_at", [None, 11.1])
def test_two_pods_on_a_gpu_at_a_time_are_an_error_and_no_quick_hand_over(ended_at):
    with pytest.raises(BenchmarkError, match="node-0 0"):
        handovers([Course("first", A, 1.0, 2.0, ended_at), Course("next", A, 11.0, 11.5)], since=0.0)


def test_a_submission_counts_from_the_time_it_was_due_to_running():
    courses = [Course("asked", A, 5.0, 5.5), Course("another", B, 5.0, 5.5), Course("waits", B, 5.0)]
    assert submissions(courses, {"asked": 4.0, "waits": 4.0}) == [Step(1.0, 1.5)]


@pytest.mark.parametrize(("part", "value"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)])
def test_a_quantile_is_one_of_the_values(part, value):
    assert quantile([float(number) for number in range(100, 0, -1)], part) == value


# --- the adapter on a server in memory ------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[WatchedCluster]:
    with closing(WatchedCluster(podless.preset().nodes)) as made:
        yield made


def spec(uid: str, seconds: str) -> PodSpec:
    labels = {"labels": {RUN_FOR: seconds}}
    return PodSpec(uid, 1, 0, 1, "units", (0,), 1000, 0, 1, 1, "team", labels)


def test_what_runs_and_ends_in_memory_is_heard_by_the_adapters_own_watch(cluster):
    first = cluster.observe(None)
    assert [(node.name, node.gpus, node.is_usable) for node in first.nodes] == [("units", 600, True)]
    news = threading.Event()
    cluster.on_news(news.set)
    cluster.start([spec("short", "0.05"), spec("long", "600")])
    phases: dict[str, PodPhase] = {}
    cursor = first.cursor
    while phases.get("short") != PodPhase.SUCCEEDED:
        assert news.wait(20)
        news.clear()
        answer = cluster.observe(cursor)
        assert not answer.is_full
        cursor, phases = answer.cursor, phases | {pod.workload: pod.phase for pod in answer.pods}
    assert phases["long"] == PodPhase.RUNNING
    assert {pod.name: pod.phase for pod in cluster.observe(None).pods} == {
        "short-1-0": PodPhase.SUCCEEDED, "long-1-0": PodPhase.RUNNING,
    }  # fmt: skip


def test_what_is_stopped_in_memory_is_gone(cluster):
    cluster.start([spec("long", "600")])
    cursor = cluster.observe(None).cursor
    cluster.stop("long", 1, [0, 7], 30.0)
    wait_until(lambda: [pod.phase for pod in cluster.observe(cursor).pods] == [PodPhase.GONE], "the end", 20)
    assert cluster.observe(None).pods[0].phase == PodPhase.GONE
