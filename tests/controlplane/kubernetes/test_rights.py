"""Our accounts use every right they have, and need none that they have not: what the API server's audit log says."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.binder import Binder
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.kubernetes.objects import KubernetesObjects
from controlplane.cluster.port import Note, PodPhase, PodSpec, Split
from controlplane.kubeobjects.names import API_VERSION
from controlplane.manifests import policy, system, teams
from controlplane.manifests.site import TeamSpace
from controlplane.testbed import istio
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.nodes import named
from tests.audited import noted
from tests.controlplane.kubernetes.auditing import SITE, denied, granted, used
from tests.controlplane.kubernetes.fences import in_force
from tests.controlplane.kubernetes.jobs import job, pod_of

pytestmark = pytest.mark.kubernetes

OTHER, THIRD, FOURTH = (f"0a1b2c3d-0000-4000-8000-00000000000{letter}" for letter in "bcd")
MONITORED = "/apis/monitoring.coreos.com/v1/namespaces/weft-nlp/servicemonitors"
MONITORS: dict[str, Any] = {  # as the Prometheus operator has it, but for its schema
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


ROUTES, RULES = (
    f"/apis/networking.istio.io/v1/namespaces/weft-nlp/{plural}" for plural in ("virtualservices", "destinationrules")
)


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[TestCluster]:
    """A cluster with our rights, policies and one team, which notes every request."""
    with test_cluster(tmp_path, nodes=named("a", "b"), audit=True) as cluster, noted(cluster):
        istio.install(cluster)
        cluster.apply([MONITORS, *system.system(SITE), *policy.policies(SITE), *teams.team(SITE, TeamSpace("nlp"))])
        cluster.wait_for(lambda: cluster.exists(MONITORED), "the Prometheus operator's kind")
        in_force(cluster, TeamSpace("nlp"), SITE)
        yield cluster


def test_the_scheduler_uses_all_its_rights_and_needs_no_others(audited: TestCluster) -> None:
    config = str(audited.kubeconfig("weft/weft-scheduler"))
    gang = [placed(pod_of(job(workers={"count": 2}), rank=rank, size=2), "a", rank) for rank in range(2)]
    served = placed(pod_of(job(type="inference", name="chat"), uid=OTHER), "b", 0)
    second = placed(pod_of(job(type="inference", name="chat"), uid=OTHER, rank=1), "b", 2)
    share = {"gpu_share": {"guarantee": 0.5, "memory": "1Gi"}}
    notebook = placed(pod_of(job(type="notebook", name="explore", resources=share), uid=THIRD), "b", 1)
    beside = placed(pod_of(job(type="notebook", name="beside", resources=share), uid=FOURTH), "b", 1)
    with closing(KubernetesCluster(find(config))) as cluster:
        cluster.observe(None)
        cluster.prepare(gang)
        note = Note(gang[0].workload, "nlp", "Queued", "2 GPUs are free, 4 are asked for.", is_warning=False)
        audited.wait_for(lambda: told(cluster, audited, note), "the event")
        cluster.publish([note])
        for pods in (gang, [served], [second], [notebook], [beside]):
            cluster.start(pods)
            cluster.start(pods)
        audited.wait_for(lambda: running(cluster) == 6, "running pods")
        cluster.resize(served.workload, 1, 0, 2000, 4096)
        split_and_unsplit(cluster, audited)
        cluster.cordon("b", True)
        cluster.cordon("b", False)
        assert cluster.logs(gang[0].workload, 1, 0, 5, None)
        cluster.stop(gang[0].workload, 1, [0, 1], 1.0)
        for one in (notebook, beside):
            cluster.stop(one.workload, 1, [0], 1.0)
        audited.wait_for(lambda: running(cluster) == 2 and not cluster.held(), "the end of the gang and of all shares")
    with closing(Api(find(config))) as api:  # a process whose informer does not show yet what is there
        api.call(Binder(api, lambda name: None, "weft-").start([served]))
    with closing(KubernetesObjects(find(config))) as objects:
        follow(objects, audited)
    assert denied(audited.audit()) == []
    assert used(audited.audit(), "weft-scheduler") == granted("weft-scheduler")
    monitor = audited.request("GET", f"{MONITORED}/w-{OTHER}")
    assert {owner["name"] for owner in monitor["metadata"]["ownerReferences"]} == {served.name, second.name}
    assert monitor["spec"]["selector"]["matchLabels"] == {"weft.dev/workload": OTHER}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("p8000", "/metrics")


def test_what_splits_requests_goes_with_the_service_and_with_another_of_its_name(audited: TestCluster) -> None:
    with closing(KubernetesCluster(find(str(audited.kubeconfig("weft/weft-scheduler"))))) as cluster:
        cluster.start([placed(pod_of(job(type="inference", name="chat"), uid=OTHER), "b", 0)])
        cluster.split(Split(OTHER, "chat", "nlp", 2, 1, 10))
        cluster.start([placed(pod_of(job(type="inference", name="chat"), uid=THIRD), "b", 1)])
        assert not audited.exists(f"{ROUTES}/w-{OTHER}"), "the name is another service's now"
        assert not audited.exists(f"{RULES}/w-{OTHER}")
        cluster.split(Split(THIRD, "chat", "nlp", 2, 1, 10))
        assert audited.exists(f"{ROUTES}/w-{THIRD}")
    audited.request("DELETE", "/api/v1/namespaces/weft-nlp/services/chat")
    audited.wait_for(
        lambda: not (audited.exists(f"{ROUTES}/w-{THIRD}") or audited.exists(f"{RULES}/w-{THIRD}")),
        "the end of what splits its requests",
    )


def test_the_reader_reads_logs_with_all_its_rights_and_no_others(audited: TestCluster) -> None:
    pod = placed(pod_of(job()), "a", 0)
    with closing(KubernetesCluster(find(str(audited.kubeconfig("weft/weft-scheduler"))))) as cluster:
        cluster.start([pod])
        audited.wait_for(lambda: running(cluster) == 1, "the pod")
    with closing(KubernetesCluster(find(str(audited.kubeconfig("weft/weft-reader"))))) as reader:
        assert reader.logs(pod.workload, 1, 0, 5, None)
    assert denied(audited.audit()) == []
    assert used(audited.audit(), "weft-reader") == granted("weft-reader")


def split_and_unsplit(cluster: KubernetesCluster, server: TestCluster) -> None:
    """Istio's objects are there, and say what they are to, while the requests are split; then they are gone."""
    for percent in (10, 30):
        cluster.split(Split(OTHER, "chat", "nlp", 2, 1, percent))
    rule, route = (server.request("GET", f"{path}/w-{OTHER}") for path in (RULES, ROUTES))
    host = "chat.weft-nlp.svc.cluster.local"
    assert rule["spec"] == {
        "host": host,
        "subsets": [{"name": f"r{number}", "labels": {"weft.dev/revision": str(number)}} for number in (1, 2)],
    }
    (http,) = route["spec"]["http"]
    assert route["spec"]["hosts"] == [host]
    assert http["route"] == [
        {"destination": {"host": host, "subset": "r1"}, "weight": 70},
        {"destination": {"host": host, "subset": "r2"}, "weight": 30},
    ]
    service = server.request("GET", "/api/v1/namespaces/weft-nlp/services/chat")
    for one in (rule, route):
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Service", service["metadata"]["uid"])
    cluster.split(Split(OTHER, "chat", "nlp", 2, 1, None))
    assert not server.exists(f"{ROUTES}/w-{OTHER}")
    assert not server.exists(f"{RULES}/w-{OTHER}")


def follow(objects: KubernetesObjects, server: TestCluster) -> None:
    """Read our custom resources, and write a status of each kind."""
    job = {"type": "training", "image": "a/b:1", "resources": {"gpus": 1}}
    meta = {"name": "hello", "namespace": "weft-nlp"}
    server.request("POST", f"/apis/{API_VERSION}/namespaces/weft-nlp/workloads", kind("Workload", meta, job))
    server.request("POST", f"/apis/{API_VERSION}/teams", kind("Team", {"name": "nlp"}, {}))
    assert objects.are_there()
    assert objects.are_fenced()
    objects.number()
    server.wait_for(lambda: len(objects.all()) == 2, "both objects")
    assert objects.write([(one, {"observedGeneration": 1}) for one in objects.all()]) == 0


def kind(name: str, meta: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": name, "metadata": meta, "spec": spec}


def placed(pod: PodSpec, node: str, gpu: int) -> PodSpec:
    return replace(pod, node=node, gpus=(gpu,))


def running(cluster: KubernetesCluster) -> int:
    return sum(pod.phase is PodPhase.RUNNING for pod in cluster.observe(None).pods)


def told(cluster: KubernetesCluster, server: TestCluster, note: Note) -> bool:
    """Whether the event is there; the adapter finds its pod by the informer, which may be a moment late."""
    cluster.publish([note])
    return bool(server.request("GET", "/api/v1/namespaces/weft-nlp/events")["items"])
