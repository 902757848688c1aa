"""The Services of workloads on a real API server: made with the first pods, gone with the last, taken over by name."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import RefusedError
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import Address, PodSpec
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.kubernetes.jobs import UID, job, pod_of

LATER = "0a1b2c3d-0000-4000-8000-00000000000b"
SERVICES = "/api/v1/namespaces/weft-nlp/services"
BUDGETS = "/apis/policy/v1/namespaces/weft-nlp/poddisruptionbudgets"


@pytest.fixture
def cluster(kubernetes: TestCluster) -> Iterator[KubernetesCluster]:
    kubeconfig = rights.scheduler(kubernetes, ["nlp"], is_fenced=False)
    with closing(KubernetesCluster(find(str(kubeconfig)))) as adapter:
        yield adapter


def worker(rank: int = 0, uid: str = UID, **file: Any) -> PodSpec:
    pod = pod_of(job(**file), rank=rank, uid=uid)
    return replace(pod, node="a", gpus=(rank,))


def owners(server: TestCluster, name: str) -> set[str]:
    meta = server.request("GET", f"{SERVICES}/{name}")["metadata"]
    return {owner["name"] for owner in meta.get("ownerReferences", ())}


def test_a_service_stays_as_long_as_any_of_its_pods(kubernetes: TestCluster, cluster: KubernetesCluster) -> None:
    chat = {"type": "inference", "name": "chat"}
    cluster.start([worker(0, **chat)])
    cluster.start([worker(1, **chat), worker(2, **chat)])
    assert owners(kubernetes, "chat") == {f"{UID}-1-{rank}" for rank in range(3)}
    cluster.stop(UID, 1, [0, 1], 1.0)
    kubernetes.wait_for(lambda: owners(kubernetes, "chat") == {f"{UID}-1-2"}, "two owners' end")
    cluster.stop(UID, 1, [2], 1.0)
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{SERVICES}/chat"), "the Service's end")


def test_evictions_leave_all_of_the_least_replicas_but_one(kubernetes: TestCluster, cluster: KubernetesCluster) -> None:
    chat = {"type": "inference", "name": "chat", "replicas": {"min": 2, "max": 4}}
    cluster.start([worker(0, **chat), worker(1, **chat)])
    kubernetes.wait_for(lambda: _budget(kubernetes).get("currentHealthy") == 2, "two ready replicas")
    assert _budget(kubernetes)["disruptionsAllowed"] == 1
    evict(kubernetes, f"{UID}-1-0")
    with pytest.raises(Exception, match="disruption budget"):
        evict(kubernetes, f"{UID}-1-1")
    cluster.start([worker(2, **{**chat, "replicas": {"min": 1, "max": 4}})])
    kubernetes.wait_for(lambda: _budget(kubernetes)["desiredHealthy"] == 0, "the smaller budget")
    cluster.stop(UID, 1, [1, 2], 1.0)
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{BUDGETS}/w-{UID}"), "the budget's end")


def test_a_replica_on_standby_is_none_of_those_that_evictions_leave(
    kubernetes: TestCluster, cluster: KubernetesCluster
) -> None:
    chat = {"type": "inference", "name": "chat", "replicas": {"min": 2, "max": 4}}
    asleep = [replace(worker(rank, **chat), is_asleep=True) for rank in (2, 3)]
    cluster.start([worker(0, **chat), worker(1, **chat), *asleep])
    kubernetes.wait_for(lambda: _budget(kubernetes).get("currentHealthy") == 2, "two ready replicas that serve")
    evict(kubernetes, f"{UID}-1-2")
    evict(kubernetes, f"{UID}-1-0")
    with pytest.raises(Exception, match="disruption budget"):
        evict(kubernetes, f"{UID}-1-1")
    cluster.rotate(UID, 1, [3], on=True)
    kubernetes.wait_for(lambda: _budget(kubernetes).get("disruptionsAllowed") == 1, "the replica that has woken")
    cluster.stop(UID, 1, [1, 3], 1.0)


def test_evictions_leave_by_the_new_least_as_soon_as_it_is_told(
    kubernetes: TestCluster, cluster: KubernetesCluster
) -> None:
    address = Address(UID, "chat", "nlp")
    cluster.guard(address, 2)  # nothing is there yet, so there is nothing to guard
    chat = {"type": "inference", "name": "chat", "replicas": {"min": 2, "max": 4}}
    cluster.start([worker(0, **chat), worker(1, **chat)])
    kubernetes.wait_for(lambda: _budget(kubernetes).get("currentHealthy") == 2, "two ready replicas")
    evict(kubernetes, f"{UID}-1-0")
    with pytest.raises(Exception, match="disruption budget"):
        evict(kubernetes, f"{UID}-1-1")
    before = kubernetes.request("GET", f"{BUDGETS}/w-{UID}")
    for _ in range(2):  # again: nothing new
        cluster.guard(address, 1)
    after = kubernetes.request("GET", f"{BUDGETS}/w-{UID}")
    assert after["spec"] == {**before["spec"], "minAvailable": 0}
    # Kubernetes' garbage collector may have taken the evicted pod from the owners in the meantime, as it is gone.
    left = after["metadata"]["ownerReferences"]
    assert f"{UID}-1-1" in {one["name"] for one in left}
    assert all(one in before["metadata"]["ownerReferences"] for one in left)
    kubernetes.wait_for(lambda: _budget(kubernetes).get("disruptionsAllowed") == 1, "the smaller budget")
    evict(kubernetes, f"{UID}-1-1")
    cluster.guard(address, 3)
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{BUDGETS}/w-{UID}"), "the budget's end")


def evict(server: TestCluster, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "weft-nlp"}}
    server.request("POST", f"/api/v1/namespaces/weft-nlp/pods/{pod}/eviction", body)


def _budget(server: TestCluster) -> dict[str, Any]:
    found: dict[str, Any] = server.request("GET", f"{BUDGETS}/w-{UID}").get("status", {})
    return found


def test_a_gang_has_its_service_before_it_is_bound(kubernetes: TestCluster, cluster: KubernetesCluster) -> None:
    gang = [worker(rank, workers={"count": 2}) for rank in range(2)]
    cluster.prepare(gang)
    assert owners(kubernetes, f"w-{UID}") == {pod.name for pod in gang}
    cluster.start(gang)
    assert kubernetes.request("GET", f"{SERVICES}/w-{UID}")["spec"]["clusterIP"] == "None"


def test_a_later_workload_of_the_same_name_takes_the_service_over(
    kubernetes: TestCluster, cluster: KubernetesCluster
) -> None:
    cluster.start([worker(0, type="inference", name="chat", port=8000)])
    cluster.start([worker(1, uid=LATER, type="notebook", name="chat", ports=[9000, 9001])])
    service = kubernetes.request("GET", f"{SERVICES}/chat")
    assert service["spec"]["selector"] == {"weft.dev/workload": LATER, "weft.dev/serving": "true"}
    assert [port["port"] for port in service["spec"]["ports"]] == [9000, 9001]
    assert service["metadata"]["labels"]["weft.dev/workload"] == LATER
    assert owners(kubernetes, "chat") == {f"{LATER}-1-1"}


def test_a_service_of_somebody_else_is_left_alone_and_named(
    kubernetes: TestCluster, cluster: KubernetesCluster
) -> None:
    theirs = {"metadata": {"name": "chat"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
    kubernetes.request("POST", SERVICES, theirs)
    with pytest.raises(RefusedError, match="A Service named chat exists in weft-nlp and is not Weft's"):
        cluster.start([worker(0, type="inference", name="chat")])
    assert kubernetes.request("GET", f"{SERVICES}/chat")["spec"]["selector"] == {"a": "b"}
