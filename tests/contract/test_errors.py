"""The errors of the ports. The simulated cluster has none: it is in the process that asks, and obeys."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autoscaler.latency import Within
from controlplane.cluster.port import Address, Cluster, ClusterUnreachable, Metrics, Note, PodPhase, Split
from controlplane.cluster.prometheus.metrics import PrometheusMetrics, Settings
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import free_port
from scheduler.model.workload import Kind
from tests.contract.drive import TEAM, gang, phase, pod, run, seen
from tests.contract.real import KubernetesDrive


@pytest.fixture
def drive(kubernetes: TestCluster) -> Iterator[KubernetesDrive]:
    with closing(KubernetesDrive(kubernetes)) as real:
        yield real


def test_while_the_cluster_does_not_answer_every_call_says_so_and_nothing_happens(drive: KubernetesDrive) -> None:
    share = drive.job_file(Kind.INFERENCE)
    share["normalised"] = {**share.get("normalised", {}), "gpu_share": {"guarantee": 300, "limit": 300}}
    run(drive, [*gang(drive, 2), pod(drive, "s", gpus=(7,), milli=300, gpu_memory=1024, spec=share)])
    cluster, server = drive.cluster, drive.server
    before = cluster.now()
    cursor = cluster.observe(None).cursor
    calls = {
        "observe": lambda: cluster.observe(None),
        "start": lambda: cluster.start([pod(drive, "new")]),
        "prepare": lambda: cluster.prepare([pod(drive, "new")]),
        "publish": lambda: cluster.publish([Note("w", TEAM, "Waiting", "Waits.")]),
        "stop": lambda: cluster.stop("w", 1, [0, 1], 5.0),
        "resize": lambda: cluster.resize("w", 1, 0, 8000, 32_768),
        "limit": lambda: cluster.limit("s", 1, [0], 500),
        "split": lambda: cluster.split(Split("w", "work", TEAM, 2, 1, None)),
        "rotate": lambda: cluster.rotate("w", 1, [0], on=True),
        "keep_address": lambda: cluster.keep_address(Address("w", "work", TEAM), on=True),
        "guard": lambda: cluster.guard(Address("w", "work", TEAM), 2),
        "cordon": lambda: cluster.cordon("a", True),
        "logs": lambda: cluster.logs("w", 1, 0, 10, None),
    }
    # The first three ask the cluster nothing; offload goes on by itself, and is told again where nothing came of it.
    assert set(calls) == methods(Cluster) - {"now", "on_news", "held", "offload"}
    server.kill("apiserver")
    for name, call in calls.items():
        with pytest.raises(ClusterUnreachable):
            call()
            pytest.fail(name)
    assert cluster.now() >= before
    server.start("apiserver")
    after = cluster.observe(None)
    assert {p.name: p.phase for p in after.pods} == dict.fromkeys(("w-1-0", "w-1-1", "s-1-0"), PodPhase.RUNNING)
    assert all(node.is_usable for node in after.nodes)
    assert cluster.observe(cursor).pods == ()
    assert (drive.size("w", 1, 0), drive.told("w", 1, 0)) == ((4000, 16_384), [])
    for call in calls.values():
        call()
    drive.until(lambda: phase(drive, "w-1-0") in (PodPhase.GONE, None), 40.0)


def test_what_the_cluster_refuses_is_said_and_is_not_unreachable(drive: KubernetesDrive) -> None:
    elsewhere = pod(drive, namespace="nobodys", spec=drive.job_file(Kind.TRAINING))
    with pytest.raises(Exception, match="weft-nobodys") as refusal:
        drive.cluster.start([elsewhere])
    assert not isinstance(refusal.value, ClusterUnreachable)
    drive.cluster.prepare([elsewhere])  # best effort
    assert seen(drive.cluster.observe(None)) == {}


def test_metrics_that_nobody_answers_for_are_not_known() -> None:
    metrics = PrometheusMetrics(Settings(f"http://127.0.0.1:{free_port()}"))
    answers = {
        "gpus": metrics.gpus(),
        "training": metrics.training(["w"]),
        "workers": metrics.workers(["w"]),
        "nodes": metrics.nodes(),
        "checkpoints": metrics.checkpoints(["w"]),
        "services": metrics.services({"w": Within(0.25)}),
        "pods": metrics.pods(["w"]),
        "revisions": metrics.revisions({"w": (0.0, Within(0.25))}),
        "scrapes": tuple(metrics.scrapes(["w"])),
    }
    assert answers == dict.fromkeys(methods(Metrics), ())


def test_every_method_of_both_ports_is_in_the_contract() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert methods(Cluster) <= set(re.findall(r"drive\.cluster\.(\w+)\(", text))
    assert methods(Metrics) <= set(re.findall(r"drive\.metrics\.(\w+)\(", text))


def methods(port: type) -> set[str]:
    return {name for name, value in vars(port).items() if callable(value) and not name.startswith("_")}
