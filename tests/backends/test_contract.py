"""The contract of a share on the real API server and kube-scheduler, for each back-end that stands beside our own.

What the adapter makes passes the API server's schemas and our fences, with our rights; kube-scheduler, which knows of
none of our accounts, gives the part to nothing else; it gives it again once the share is gone, and nothing stays. The
nodes are KWOK's, so no container runs, no device plugin and no driver: what holds a share on a GPU is not tried here.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import RefusedError
from controlplane.cluster.kubernetes.backends import dra, hami
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import PodSpec
from controlplane.enforcer import inside
from controlplane.manifests import enforcer
from controlplane.manifests.site import ENFORCER, Site, TeamSpace
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import named
from tests.audited import noted
from tests.backends import forging, told
from tests.backends.forging import TEAM
from tests.controlplane.kubernetes.fences import in_force, refusal
from tests.controlplane.kubernetes.jobs import job, pod_of

pytestmark = pytest.mark.kubernetes

SITE = Site(has_dra=True, enforcer_image="registry.example/weft:1")
CLAIMS = dra.path("weft-nlp")
OTHERS = "/api/v1/namespaces/default/pods"
UIDS = [f"0a1b2c3d-0000-4000-8000-0000000000{n:02x}" for n in range(20)]
DRIVER = dra.CLASS
# The nodes of the test, by what their status offers: as NVIDIA's and HAMi's device plugins and the DRA driver would.
OFFERED = {
    "mig": {"nvidia.com/mig-2g.10gb": "3", "nvidia.com/mig-1g.5gb": "1"},
    "mps": {"nvidia.com/gpu.shared": "4"},
    "hami": {names.GPU_RESOURCE: "10"},
    "dra": {},
    "sliced": {names.GPU_RESOURCE: "1"},
    "weft": {names.GPU_RESOURCE: "1", inside.RESOURCE: "4"},
    "on-demand": {names.GPU_RESOURCE: "3", inside.RESOURCE: "4", inside.ON_DEMAND: "4"},
}
REGISTERED = "GPU-h0,10,40960,100,NVIDIA-A100-SXM4-40GB,0,true:"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """A cluster with kube-scheduler, a node for each back-end, and the alpha feature that divides devices."""
    machines = [replace(one, gpus=1) for one in named(*OFFERED, gpus=1)]
    folder = tmp_path_factory.mktemp("backends")
    gates = ("DRAConsumableCapacity",)
    with test_cluster(folder, nodes=machines, tier="baseline", audit=True, gates=gates) as cluster, noted(cluster):
        for node, offered in OFFERED.items():
            amounts = {names.GPU_RESOURCE: None, **offered}
            cluster.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
        cluster.patch("/api/v1/nodes/hami", {"metadata": {"annotations": {hami.REGISTERED: REGISTERED}}})
        cluster.patch("/api/v1/nodes/dra", {"metadata": {"labels": {"weft.dev/shares-enforced": "dra"}}})
        cluster.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", _device_class())
        cluster.request("POST", "/apis/resource.k8s.io/v1/resourceslices", _slice())
        yield cluster


@pytest.fixture(scope="module")
def cluster(server: TestCluster) -> Iterator[KubernetesCluster]:
    """The adapter with the scheduler's rights, all fences up."""
    config = rights.scheduler(server, ["nlp"], site=SITE)
    in_force(server, TeamSpace("nlp"), SITE)
    with closing(KubernetesCluster(find(str(config)))) as adapter:
        yield adapter


def _device_class() -> dict[str, Any]:
    """As the chart of HAMi's DRA driver makes it."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "hami-gpu"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"metadata": {"name": dra.CLASS}, "spec": spec}


def _slice() -> dict[str, Any]:
    """One GPU of 40 GiB that several claims may have parts of."""
    device = {
        "name": "hami-gpu-0",
        "allowMultipleAllocations": True,
        "attributes": {"type": {"string": "hami-gpu"}},
        "capacity": {"cores": {"value": "100"}, "memory": {"value": "40Gi"}},
    }
    pool = {"name": "dra", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "dra-gpus"},
        "spec": {"driver": DRIVER, "nodeName": "dra", "pool": pool, "devices": [device]},
    }


def share(number: int, node: str, guarantee: float = 0.25, memory: str = "9Gi", profile: str = "2g.10gb") -> PodSpec:
    asked = {"gpu_share": {"guarantee": guarantee, "memory": memory}, "cpu": "100m", "memory": "64Mi"}
    is_on_demand = node == "on-demand"
    more = {"on_demand": True} if is_on_demand else {}
    pod = pod_of(job(type="notebook", name=f"n{number}", resources=asked, **more), uid=UIDS[number])
    if is_on_demand:
        return replace(pod, node=node, gpus=(1,), enforcer=node, on_demand=40_960, reach=(0, 1, 2))
    enforcer = "time-slicing" if node == "sliced" else node
    return replace(pod, node=node, gpus=(0,), enforcer=enforcer, profile=profile if node == "mig" else "")


def stop(cluster: KubernetesCluster, server: TestCluster, *pods: PodSpec) -> None:
    for pod in pods:
        cluster.stop(pod.workload, pod.attempt, [pod.rank], 1.0)
        server.wait_for(lambda pod=pod: not server.exists(f"{TEAM}/{pod.name}"), f"the end of {pod.name}")


def asker(server: TestCluster, name: str, **limits: str) -> str:
    """A pod of others that asks kube-scheduler for as much; its path."""
    spec = {"containers": [{"name": "main", "image": "other:1", "resources": {"limits": limits}}]}
    server.request("POST", OTHERS, {"metadata": {"name": name}, "spec": spec})
    return f"{OTHERS}/{name}"


def said(server: TestCluster, path: str) -> str:
    conditions = server.request("GET", path)["status"].get("conditions", ())
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


def node_of(server: TestCluster, path: str) -> str:
    return str(server.request("GET", path)["spec"].get("nodeName", ""))


@pytest.mark.parametrize(
    ("node", "count", "resource"),
    [
        ("mig", 3, "nvidia.com/mig-2g.10gb"),
        ("mps", 4, "nvidia.com/gpu.shared"),
        ("sliced", 2, names.GPU_RESOURCE),
        ("weft", 2, names.GPU_RESOURCE),
        ("on-demand", 2, names.GPU_RESOURCE),
    ],
)
def test_kube_scheduler_gives_no_other_pod_what_shares_have_and_gives_it_once_they_are_gone(
    cluster: KubernetesCluster, server: TestCluster, node: str, count: int, resource: str
) -> None:
    pods = [share(number, node, guarantee=0.25) for number in range(count)]
    for pod in pods:
        cluster.start([pod])
    assert {node_of(server, f"{TEAM}/{pod.name}") for pod in pods} == {node}
    # What offers the same name is out of the way while this asks for one more.
    others = [one for one, offered in OFFERED.items() if one != node and resource in offered]
    for other in others:
        server.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}})
    path = asker(server, f"other-{node}", **{resource: "1"})
    server.wait_for(lambda: f"Insufficient {resource}" in said(server, path), "kube-scheduler's answer")
    stop(cluster, server, *pods)

    def is_given() -> bool:
        cluster.observe(None)  # what has a placeholder go that holds nothing any more
        return node_of(server, path) == node

    server.wait_for(is_given, "its place")
    server.delete(path)
    for other in others:
        server.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": None}})
    server.wait_for(lambda: not server.exists(path), "the other pod's end")


def test_the_placeholder_holds_devices_of_sliced_nodes_and_ours_and_no_others(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    pods = [share(4, "mig"), share(5, "mps"), share(6, "hami"), share(7, "sliced"), share(17, "weft")]
    for pod in pods:
        cluster.start([pod])
    cluster.observe(None)
    holders = server.request("GET", f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods")["items"]
    assert sorted(one["spec"]["nodeName"] for one in holders) == ["sliced", "weft"]
    assert cluster.held() == {("sliced", 0), ("weft", 0)}
    stop(cluster, server, *pods)


def test_a_notebook_on_demand_is_bound_to_all_gpus_of_its_node_which_are_held_until_it_is_gone(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    pods = [share(number, "on-demand") for number in (18, 19)]
    for pod in pods:
        cluster.start([pod])
    seen = {one.workload: one.gpus for one in cluster.observe(None).pods}
    assert {seen[pod.workload] for pod in pods} == {(1,)}, "as it was placed"
    one = server.request("GET", f"{TEAM}/{pods[0].name}")
    assert one["metadata"]["annotations"][names.GPUS] == one["metadata"]["annotations"][names.DEVICE] == "1,0,2"
    assert one["spec"]["containers"][0]["resources"]["limits"]["memory"] == f"{64 + 9 * 1024}Mi"

    def held() -> set[int]:
        """GPUs of its node: those of others may still be held for the tests before."""
        cluster.observe(None)
        return {gpu for node, gpu in cluster.held() if node == "on-demand"}

    assert held() == {0, 1, 2}
    stop(cluster, server, pods[0])
    assert held() == {0, 1, 2}, "the other one still may go to each of them"
    stop(cluster, server, pods[1])

    def is_free() -> bool:
        return not held()

    server.wait_for(is_free, "the end of the placeholders")


def test_the_pods_of_our_daemons_are_let_into_their_namespace_and_into_no_other(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    path = f"/apis/apps/v1/namespaces/{enforcer.NAMESPACE}/daemonsets/{ENFORCER}"
    template = server.request("GET", path)["spec"]["template"]
    body = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "one", **template["metadata"]}}
    there = "/api/v1/namespaces/{}/pods?dryRun=All&fieldValidation=Strict"
    server.request("POST", there.format(enforcer.NAMESPACE), body)
    body["spec"] = {**body["spec"], "serviceAccountName": "default"}
    for namespace in ("weft-nlp", SITE.namespace):
        assert "forbidden" in refusal(lambda to=namespace: server.request("POST", there.format(to), body))


def test_hami_is_told_device_memory_and_percent_in_its_own_form_and_never_beyond_the_device(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    pods = [share(number, "hami", guarantee=0.5, memory="20Gi") for number in (8, 9)]
    for pod in pods:
        cluster.start([pod])
    found = [server.request("GET", f"{TEAM}/{pod.name}") for pod in pods]
    parts = []
    for one in found:
        noted_ = one["metadata"]["annotations"]
        assert noted_[hami.NODE] == one["spec"]["nodeName"] == "hami"
        assert (noted_[hami.PHASE], noted_[hami.TIME].isdigit()) == ("allocating", True)
        ((part,),) = told.containers(noted_[hami.TO_ALLOCATE])
        parts.append(part)
    assert {part.device for part in parts} == {"GPU-h0"}
    assert sum(part.memory for part in parts) <= 40960
    assert sum(part.cores for part in parts) <= 100
    stop(cluster, server, *pods)


def test_a_node_that_has_registered_no_such_gpu_with_hami_gets_no_share(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    with pytest.raises(RefusedError, match="has not registered GPU 3 with hami"):
        cluster.start([replace(share(10, "hami"), gpus=(3,))])
    server.wait_for(lambda: not server.exists(f"{TEAM}/{share(10, 'hami').name}"), "nothing to be left")


def test_kube_scheduler_allocates_each_claim_a_part_of_the_device_until_there_is_no_more(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    pods = [share(number, "dra", guarantee=0.4, memory="10Gi") for number in (11, 12)]
    for pod in pods:
        cluster.start([pod])
    for pod in pods:
        assert node_of(server, f"{TEAM}/{pod.name}") == "dra"
        claim = server.request("GET", f"{CLAIMS}/{pod.name}")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["driver"], result["pool"], result["device"]) == (DRIVER, "dra", "hami-gpu-0")
        assert result["consumedCapacity"] == {"cores": "40", "memory": "10Gi"}
        assert [one["name"] for one in claim["status"]["reservedFor"]] == [pod.name]

    late = share(13, "dra", guarantee=0.4, memory="10Gi")
    with pytest.raises(RefusedError, match="kube-scheduler gives .* no device"):
        cluster.start([late])
    server.wait_for(lambda: not server.exists(f"{TEAM}/{late.name}"), "what was refused to be gone")
    server.wait_for(lambda: not server.exists(f"{CLAIMS}/{late.name}"), "its claim to be gone")

    stop(cluster, server, pods[0])
    server.wait_for(lambda: not server.exists(f"{CLAIMS}/{pods[0].name}"), "its claim's end")
    cluster.start([late])
    assert node_of(server, f"{TEAM}/{late.name}") == "dra"
    stop(cluster, server, pods[1], late)
    server.wait_for(lambda: not server.request("GET", CLAIMS)["items"], "the end of all claims")


def test_a_claim_of_a_pod_of_before_is_waited_for(cluster: KubernetesCluster, server: TestCluster) -> None:
    pod = share(16, "dra")
    left = dra.Dra().claim(pod, {})
    assert left is not None
    del left["metadata"]["ownerReferences"]
    server.request("POST", CLAIMS, left)
    with pytest.raises(RefusedError, match="of before is still leaving"):
        cluster.start([pod])
    server.delete(f"{CLAIMS}/{pod.name}")
    server.wait_for(lambda: not server.exists(f"{TEAM}/{pod.name}"), "what was refused to be gone")


def test_a_share_by_memory_alone_is_refused_where_the_device_s_memory_is_taken(
    cluster: KubernetesCluster, server: TestCluster
) -> None:
    first, second = (share(number, "dra", guarantee=0.1, memory="25Gi") for number in (14, 15))
    cluster.start([first])
    with pytest.raises(RefusedError, match="no device"):
        cluster.start([second])
    stop(cluster, server, first)
    server.wait_for(lambda: not server.request("GET", CLAIMS)["items"], "the end of all claims")


@pytest.mark.parametrize(
    ("node", "change"),
    [
        ("mig", forging.limits(**{"nvidia.com/mig-2g.10gb": "2"})),
        ("mig", forging.limits(**{"nvidia.com/mig-1g.5gb": "1"})),
        ("mig", forging.limits(**{"nvidia.com/mig-2g.10gb": None})),
        ("mig", forging.limits(**{"nvidia.com/gpu.shared": "1"})),
        ("mig", forging.annotation(None)),
        ("mig", forging.annotation("mps")),
        ("mig", forging.annotation("weft")),
        ("mps", forging.limits(**{"nvidia.com/gpu.shared": "2"})),
        ("mps", forging.variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")),
        ("mps", forging.variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=99999M")),
        ("mps", forging.variable("CUDA_MPS_PIPE_DIRECTORY", "/x")),
        ("hami", forging.limits(**{"nvidia.com/gpumem": "40960"})),
        ("hami", forging.limits(**{"nvidia.com/gpucores": "100"})),
        ("hami", forging.limits(**{"nvidia.com/gpu": "2"})),
        ("hami", forging.variable("CUDA_DEVICE_MEMORY_LIMIT", "0")),
        ("dra", forging.spec(schedulerName="weft")),
        ("dra", forging.spec(affinity=None)),
        ("dra", forging.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "another"}])),
        ("dra", forging.spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])),
        ("dra", forging.annotation(None)),
        ("weft", forging.limits(**{inside.RESOURCE: "2"})),
        ("weft", forging.limits(**{inside.RESOURCE: None})),
        ("weft", forging.spec(initContainers=None)),
        ("weft", forging.first(command=["/bin/sh", "-c", "true"])),
        ("weft", forging.first(image="registry.example/other:1")),
        ("weft", forging.first(resources={})),
        ("weft", forging.first(args=["x"])),
        ("weft", forging.first(env=[{"name": "LD_PRELOAD", "value": "x"}])),
        ("weft", forging.first(restartPolicy="Always")),
        ("weft", forging.first(name="another")),
        ("weft", forging.first(securityContext={**forging.DROPPED, "runAsUser": 5})),
        ("weft", forging.variable("WEFT_GPU_ENFORCER", "/x")),
        ("on-demand", forging.limits(**{inside.RESOURCE: None})),
        ("on-demand", forging.noted(names.ON_DEMAND, None)),
        ("on-demand", forging.noted(names.ON_DEMAND, "many")),
        ("on-demand", forging.variable("CUDA_VISIBLE_DEVICES", "0")),
        ("weft", forging.noted(names.ON_DEMAND, "40960", kind="training")),
        ("sliced", forging.first(name="gpu-share", command=["/opt/weft/enforcer/weft-gpu-run"])),
        ("sliced", forging.limits(**{inside.RESOURCE: "1"})),
        ("sliced", forging.spec(schedulerName="default-scheduler")),
        ("sliced", forging.limits(**{"nvidia.com/gpumem": "1"})),
        ("sliced", forging.variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")),
    ],
)
def test_a_pod_that_asks_for_more_than_its_share_is_refused_even_from_our_own_account(
    cluster: KubernetesCluster, server: TestCluster, node: str, change: Any
) -> None:
    pod = share(0, node)
    assert not forging.said(server, pod, lambda body: None), "as it is built it is taken"
    assert "Weft:" in forging.said(server, pod, change)
