"""Devices with shares are held in Kubernetes' own accounting, on a real API server with our rights and fences."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import Api, RefusedError
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.kubernetes.placeholders import PATH, Placeholders
from controlplane.cluster.port import PodSpec
from controlplane.manifests.site import TeamSpace
from controlplane.testbed.kubernetes import READY_SECONDS, TestCluster, test_cluster
from controlplane.testbed.nodes import named
from tests.audited import noted
from tests.controlplane.kubernetes.fences import in_force, refusal
from tests.controlplane.kubernetes.jobs import job, pod_of

pytestmark = pytest.mark.kubernetes

UIDS = [f"0a1b2c3d-0000-4000-8000-00000000000{n:x}" for n in range(8)]
TEAM = "/api/v1/namespaces/weft-nlp/pods"
ON_A0 = frozenset({("a", 0)})


@pytest.fixture
def cluster(kubernetes: TestCluster) -> Iterator[KubernetesCluster]:
    """The adapter with the scheduler's rights, all fences up. No round goes by: it waits as long as tests do."""
    config = rights.scheduler(kubernetes, ["nlp"])
    in_force(kubernetes, TeamSpace("nlp"), rights.SITE)
    with closing(KubernetesCluster(find(str(config)), placeholder_patience=READY_SECONDS)) as adapter:
        yield adapter


@pytest.fixture
def api(kubernetes: TestCluster, cluster: KubernetesCluster) -> Iterator[Api]:
    """A second process of the scheduler."""
    with closing(Api(find(str(kubernetes.kubeconfig(rights.ACCOUNT))))) as one:
        yield one


def share(number: int, gpu: int = 0, **changes: Any) -> PodSpec:
    asked = {"gpu_share": {"guarantee": 0.3, "limit": 0.8, "memory": "1Gi"}}
    pod = pod_of(job(type="notebook", name=f"n{number}", resources=asked, **changes), uid=UIDS[number])
    return replace(pod, gpus=(gpu,))


def whole(number: int, *gpus: int) -> PodSpec:
    return replace(pod_of(job(resources={"gpus": len(gpus)}), uid=UIDS[number]), gpus=gpus)


def there(server: TestCluster) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in server.request("GET", PATH)["items"]}


def settled(cluster: KubernetesCluster, held: frozenset[tuple[str, int]]) -> bool:
    cluster.observe(None)
    return cluster.held() == held


def test_the_first_share_of_a_device_has_it_held_and_the_last_one_lets_it_go(
    cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    cluster.start([share(0)])
    cluster.start([share(1)])
    (holder,) = there(kubernetes).values()
    assert (holder["metadata"]["name"], holder["spec"]["nodeName"]) == ("a-gpu-0", "a")
    assert holder["spec"]["containers"][0]["resources"]["limits"] == {names.GPU_RESOURCE: "1"}
    assert holder["metadata"]["annotations"][names.CLAIMANTS] == f"weft-nlp/{share(0).name},weft-nlp/{share(1).name}"

    cluster.stop(UIDS[0], 1, [0], 1.0)
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{TEAM}/{share(0).name}"), "the first one's end")
    kubernetes.wait_for(lambda: settled(cluster, ON_A0), "an observation")
    assert list(there(kubernetes)) == ["a-gpu-0"]

    cluster.stop(UIDS[1], 1, [0], 1.0)
    kubernetes.wait_for(lambda: settled(cluster, frozenset()) and not there(kubernetes), "the end of the placeholder")


def test_a_share_gets_its_device_its_guarantee_its_limit_and_its_memory(
    cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    cluster.start([share(0)])
    pod = kubernetes.request("GET", f"{TEAM}/{share(0).name}")
    noted = pod["metadata"]["annotations"]
    assert {key: noted[key] for key in (names.GPUS, names.DEVICE, names.MILLI, names.LIMIT, names.GPU_MEMORY)} == {
        names.GPUS: "0", names.DEVICE: "0", names.MILLI: "300", names.LIMIT: "800", names.GPU_MEMORY: "1024",
    }  # fmt: skip
    env = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in pod["spec"]["containers"][0]["env"]}
    assert env == {
        "NVIDIA_VISIBLE_DEVICES": f"metadata.annotations['{names.DEVICE}']",
        "WEFT_GPU_GUARANTEE_MILLI": f"metadata.annotations['{names.MILLI}']",
        "WEFT_GPU_LIMIT_MILLI": f"metadata.annotations['{names.LIMIT}']",
        "WEFT_GPU_MEMORY_MIB": f"metadata.annotations['{names.GPU_MEMORY}']",
    }


def test_a_share_is_shown_the_device_that_its_placeholder_was_given(
    cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    cluster.start([share(0)])
    given = {"state": {"terminated": {"exitCode": 0, "message": "GPU-8f2c-11\n"}}, "name": "device"}
    rest = {"ready": True, "restartCount": 0, "image": "", "imageID": ""}
    kubernetes.patch(f"{PATH}/a-gpu-0/status", {"status": {"initContainerStatuses": [{**given, **rest}]}})
    cluster.start([share(1)])
    assert (
        kubernetes.request("GET", f"{TEAM}/{share(1).name}")["metadata"]["annotations"][names.DEVICE] == "GPU-8f2c-11"
    )


def test_placeholders_take_nothing_from_what_a_node_offers(cluster: KubernetesCluster) -> None:
    before = {node.name: node for node in cluster.observe(None).nodes}
    cluster.start([share(0), share(1, 5)])
    assert {node.name: node for node in cluster.observe(None).nodes} == before


def test_whole_gpus_wait_until_what_is_left_over_holds_their_device_no_more(
    cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    cluster.start([share(0)])
    cluster.stop(UIDS[0], 1, [0], 1.0)
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{TEAM}/{share(0).name}"), "the share's end")
    cluster.start([whole(1, 0)])  # nothing has observed meanwhile
    assert there(kubernetes) == {}
    assert kubernetes.request("GET", f"{TEAM}/{whole(1, 0).name}")["spec"]["nodeName"] == "a"


def test_whole_gpus_are_refused_a_device_that_shares_are_on(
    cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    cluster.start([share(0)])
    config = find(str(kubernetes.kubeconfig(rights.ACCOUNT)))
    with closing(KubernetesCluster(config, placeholder_patience=0.5)) as hasty:
        kubernetes.wait_for(lambda: settled(hasty, ON_A0), "an observation")
        with pytest.raises(RefusedError, match=f"GPU 0 on a is still held for shares: weft-nlp/{share(0).name}"):
            hasty.start([whole(1, 0)])
    assert list(there(kubernetes)) == ["a-gpu-0"]
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{TEAM}/{whole(1, 0).name}"), "the end of what was refused")


def test_a_placeholder_whose_share_never_came_is_found_by_the_next_observation(
    cluster: KubernetesCluster, kubernetes: TestCluster, api: Api
) -> None:
    api.call(Placeholders(api, lambda node, gpu: None).claim("a", 3, f"weft-nlp/{share(0).name}"))  # and then it died
    assert list(there(kubernetes)) == ["a-gpu-3"]
    kubernetes.wait_for(lambda: settled(cluster, frozenset()) and not there(kubernetes), "the end of the placeholder")


def test_a_placeholder_stays_for_a_share_that_is_made_and_not_bound_yet(
    cluster: KubernetesCluster, kubernetes: TestCluster, api: Api
) -> None:
    cluster.prepare([share(0)])
    holders = Placeholders(api, lambda node, gpu: None)
    holder = api.call(holders.claim("a", 0, f"weft-nlp/{share(0).name}"))
    api.call(holders.release(holder))
    assert list(there(kubernetes)) == ["a-gpu-0"]


def test_of_a_claim_and_a_release_at_once_one_is_refused(
    cluster: KubernetesCluster, kubernetes: TestCluster, api: Api
) -> None:
    holders = Placeholders(api, lambda node, gpu: None)
    seen = api.call(holders.claim("a", 0, f"weft-nlp/{share(0).name}"))  # of a share that is gone
    cluster.prepare([share(1)])
    api.call(holders.claim("a", 0, f"weft-nlp/{share(1).name}"))
    api.call(holders.release(seen))  # by one that saw it before the second claim
    assert list(there(kubernetes)) == ["a-gpu-0"]


def test_a_placeholder_that_was_taken_away_comes_back(cluster: KubernetesCluster, kubernetes: TestCluster) -> None:
    cluster.start([share(0)])
    first = there(kubernetes)["a-gpu-0"]["metadata"]["uid"]
    kubernetes.delete(f"{PATH}/a-gpu-0")

    def is_back() -> bool:
        cluster.observe(None)
        return any(item["metadata"]["uid"] != first for item in there(kubernetes).values())

    kubernetes.wait_for(is_back, "a new placeholder")


def test_kube_scheduler_gives_no_other_pod_a_device_with_shares(tmp_path: Path) -> None:
    with test_cluster(tmp_path, nodes=named("a", gpus=2), tier="baseline", audit=True) as server, noted(server):
        config = rights.scheduler(server, ["nlp"])
        limits = {"limits": {names.GPU_RESOURCE: "2"}}
        spec = {"containers": [{"name": "main", "image": "other:1", "resources": limits}]}
        pods = "/api/v1/namespaces/default/pods"
        with closing(KubernetesCluster(find(str(config)))) as cluster:
            cluster.start([share(0)])
            server.request("POST", pods, {"metadata": {"name": "other"}, "spec": spec})

            def said() -> str:
                conditions = server.request("GET", f"{pods}/other")["status"].get("conditions", ())
                return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

            server.wait_for(lambda: bool(said()), "kube-scheduler's answer")
            assert f"Insufficient {names.GPU_RESOURCE}" in said()

            cluster.stop(UIDS[0], 1, [0], 1.0)
            server.wait_for(lambda: settled(cluster, frozenset()), "the end of the placeholder")
            server.wait_for(lambda: server.request("GET", f"{pods}/other")["spec"].get("nodeName") == "a", "its place")


def test_a_gang_of_shares_on_one_device_is_held_once(cluster: KubernetesCluster, kubernetes: TestCluster) -> None:
    asked = {"gpu_share": {"guarantee": 0.2, "memory": "1Gi"}}
    file = job(resources=asked, workers={"count": 4})
    cluster.start([replace(pod_of(file, rank=rank, size=4), gpus=(rank // 2,)) for rank in range(4)])
    assert sorted(there(kubernetes)) == ["a-gpu-0", "a-gpu-1"]
    assert settled(cluster, frozenset({("a", 0), ("a", 1)}))


def test_no_other_pod_gets_into_the_namespace_of_placeholders(
    cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    cluster.start([share(0)])
    made = there(kubernetes)["a-gpu-0"]
    spec = {key: value for key, value in made["spec"].items() if key not in ("tolerations",)}
    meta = {key: made["metadata"][key] for key in ("labels", "annotations")}
    token = kubernetes.token(rights.ACCOUNT)
    other = {"metadata": {**meta, "name": "a-gpu-7", "annotations": {names.GPUS: "7"}}, "spec": spec}

    def with_container(**changes: Any) -> dict[str, Any]:
        (first,) = spec["containers"]
        return {**other, "spec": {**spec, "containers": [{**first, **changes}]}}

    two = {names.GPU_RESOURCE: "2"}
    wrong = {
        "its own label": {**other, "metadata": {**other["metadata"], "labels": {}}},
        "named after its node and GPU": {**other, "metadata": {**other["metadata"], "name": "other"}},
        "image with Weft's own commands": with_container(image="evil:1"),
        "with Weft's own commands": with_container(command=["/bin/sh", "-c", "true"]),
        "asks for one GPU": with_container(resources={"limits": two, "requests": two}),
        "an image, a command and a GPU only": with_container(env=[{"name": "A", "value": "b"}]),
        "holds its node and two containers": {**other, "spec": {**spec, "volumes": [{"name": "x", "emptyDir": {}}]}},
        "is made on its node": {**other, "spec": {**spec, "schedulerName": "default-scheduler"}},
    }
    for why, body in wrong.items():
        said = refusal(lambda body=body: kubernetes.request("POST", f"{PATH}?dryRun=All", body, token=token))  # type: ignore[misc]
        assert why in said, (why, said)
    assert "only Weft's scheduler makes" in refusal(lambda: kubernetes.request("POST", f"{PATH}?dryRun=All", other))
    assert refusal(lambda: kubernetes.request("POST", f"{PATH}?dryRun=All", other, token=token)) == ""
