"""`watch` and `kubernetes-resync`: how old the informer can get, and how long it takes to make it anew.

The informer has the scheduler's account and rights, and production's settings; an administrator writes the load.
The fences of the team's namespace are left out, as they would refuse pods that are bound as they are made.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from controlplane.benchmarks.harness import rights
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.reliability.faults import Faults, proxy
from controlplane.cluster.kubernetes import names, pods
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import ClusterUnreachable, PodSpec
from controlplane.testbed.kubernetes import TestCluster, test_cluster

NODES, PODS, RESYNCS = 1000, 10_000, 5
OUTAGE_SECONDS = 10.0
GIVE_UP_SECONDS = 120.0
POLL_SECONDS = 0.02
TEAM = "team"
SPEC: dict[str, object] = {"type": "training", "name": "work", "image": "registry.example/work:1", "normalised": {}}


@contextmanager
def _cluster(nodes: int) -> Iterator[tuple[TestCluster, Path]]:
    """API server and etcd only: nodes and pods stay as they are written. With a kubeconfig of the scheduler."""
    with (
        tempfile.TemporaryDirectory(prefix="weft-benchmark-") as folder,
        test_cluster(Path(folder), nodes=nodes, tier="api") as cluster,
    ):
        # No controller counts quotas here, and the load is bound as it is made, which the policies forbid.
        yield cluster, rights.scheduler(cluster, [TEAM], is_fenced=False)


def _put(cluster: TestCluster, nodes: int, number: int) -> None:
    """A worker of ours on a node, as a bind leaves it."""
    pod = PodSpec(f"w{number}", 1, 0, 1, f"node-{number % nodes:04}", (number % 8,), 1000, 0, 1000, 1024, TEAM, SPEC)
    namespace = names.namespace(TEAM)
    body: dict[str, Any] = pods.build(pod, namespace=namespace)
    body["spec"]["nodeName"] = pod.node
    body["metadata"]["annotations"][names.GPUS] = names.gpus_text(pod.gpus)
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def resync(options: Options, progress: Progress) -> Result:
    """A process that knows nothing reads 1,000 nodes and 10,000 pods."""
    count = options.jobs or PODS
    nodes = max(1, count * NODES // PODS)
    with _cluster(nodes) as (cluster, kubeconfig):
        progress(0.0, f"making {count} pods")
        cluster.each(partial(_put, cluster, nodes), range(count))
        times = []
        for number in range(options.repeat or RESYNCS):
            progress(0.5 + number / RESYNCS / 2, "reading")
            began = time.monotonic()
            with closing(KubernetesCluster(find(str(kubeconfig)))) as adapter:
                seen = adapter.observe(None)
                times.append(time.monotonic() - began)
            if (len(seen.nodes), len(seen.pods)) != (nodes, count):
                raise BenchmarkError(f"It read {len(seen.nodes)} nodes and {len(seen.pods)} pods.")
    listed = ", ".join(f"{seconds:.2f}" for seconds in times)
    return Result(
        (Figure("kubernetes-resync.seconds", round(median(times), 2), "s", 3.0),),
        (f"{nodes} nodes, {count} pods; from no connection to a full observation: {listed} s",),
    )


def watch(options: Options, progress: Progress) -> Result:
    """Under each fault, write something past the watcher and wait until it knows."""
    ages: dict[str, float] = {}
    with _cluster(3) as (cluster, _), proxy(cluster, cluster.token(rights.ACCOUNT)) as between:
        for number, (name, trouble) in enumerate(TROUBLES.items()):
            progress(number / len(TROUBLES), name)
            with closing(KubernetesCluster(between.access())) as adapter:
                cursor = adapter.observe(None).cursor
                since = trouble(cluster, between.faults, partial(_put, cluster, 3, number))
                ages[name] = _known(adapter, cursor, f"w{number}") - since
            _heal(between.faults)
    worst = max(ages, key=lambda name: ages[name])
    return Result(
        (Figure("watch.staleness_seconds_max", round(ages[worst], 1), "s", 60.0),),
        tuple(f"{name}: {seconds:.1f} s" for name, seconds in ages.items()),
    )


def _known(adapter: KubernetesCluster, cursor: str, workload: str) -> float:
    """When the change is known by the watch alone, without asking for everything; by the monotonic clock."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        try:
            if any(pod.workload == workload for pod in adapter.observe(cursor).pods):
                return time.monotonic()
        except ClusterUnreachable:
            pass
        time.sleep(POLL_SECONDS)
    raise BenchmarkError(f"{workload} was not known after {GIVE_UP_SECONDS:g} s.")


def _heal(faults: Faults) -> None:
    faults.drop_lines, faults.repeat_lines = (lambda event: False), False
    faults.is_silent, faults.half_open, faults.gone, faults.delay = False, 0, 0, 0.0


# What is wrong, then the change; returns from when on staleness counts, by the monotonic clock.
Trouble = Callable[[TestCluster, Faults, Callable[[], None]], float]


def _none(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    change()
    return time.monotonic()


def _dropped(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    faults.drop_lines = lambda event: event["type"] != "BOOKMARK"
    return _none(cluster, faults, change)


def _repeated(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    faults.repeat_lines = True
    return _none(cluster, faults, change)


def _expired(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    faults.gone = faults.watches
    return _none(cluster, faults, change)


def _half_open(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    faults.half_open = faults.watches
    return _none(cluster, faults, change)


def _slow(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    faults.delay = 2.0
    return _none(cluster, faults, change)


def _silent(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    faults.is_silent = True
    change()
    time.sleep(OUTAGE_SECONDS)
    faults.is_silent = False
    return time.monotonic()


def _killed(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    cluster.kill("apiserver")
    time.sleep(OUTAGE_SECONDS)
    cluster.start("apiserver")
    began = time.monotonic()  # it answers
    change()
    return began


def _paused(cluster: TestCluster, faults: Faults, change: Callable[[], None]) -> float:
    cluster.pause("apiserver")
    time.sleep(OUTAGE_SECONDS)
    cluster.resume("apiserver")
    began = time.monotonic()
    change()
    return began


TROUBLES: dict[str, Trouble] = {
    "no fault": _none,
    "changes left out of the watch (F2, F3)": _dropped,
    "changes told twice (F4)": _repeated,
    "410 in the watch (F5)": _expired,
    "half-open watches (F6)": _half_open,
    "answers after 2 s (F9)": _slow,
    "no answers for 10 s (F9)": _silent,
    "API server killed, back after 10 s (F9)": _killed,
    "API server paused for 10 s (F9)": _paused,
}
