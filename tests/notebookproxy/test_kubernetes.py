"""Where a notebook's server is, by a real API server, with the rights of the account that shows logs or with none."""

import uuid
from contextlib import closing
from dataclasses import replace

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.manifests.site import NOTEBOOKS, READER, Site
from controlplane.notebookproxy.doors import ServiceDoors
from controlplane.notebookproxy.kubernetes import KubernetesDoors
from controlplane.queries.accounts.visiting import Seat
from controlplane.testbed.api import ApiError
from controlplane.testbed.kubernetes import TestCluster
from tests.controlplane.kubernetes.jobs import UID, job, pod_of

pytestmark = pytest.mark.kubernetes


def test_a_notebooks_address_is_its_pods_of_this_attempt(kubernetes: TestCluster) -> None:
    config = rights.scheduler(kubernetes, ["nlp"])
    reader = find(str(kubernetes.kubeconfig(f"{rights.SITE.namespace}/{READER}")))
    with (
        closing(KubernetesCluster(find(str(config)))) as cluster,
        closing(KubernetesDoors(reader, prefix="weft-")) as doors,
    ):
        seat = Seat(uuid.UUID(UID), 1, "nlp", "plots", 8888, "token")
        assert doors.address(seat) is None
        notebook = job(type="notebook", name="plots", env={"JUPYTER_TOKEN": "token"})
        cluster.start([replace(pod_of(notebook), node="a", gpus=(0,))])
        kubernetes.wait_for(lambda: doors.address(seat) is not None, "its address")
        (pod,) = kubernetes.request("GET", "/api/v1/namespaces/weft-nlp/pods")["items"]
        assert doors.address(seat) == f"{pod['status']['podIP']}:8888"
        assert {"name": "JUPYTER_TOKEN", "value": "token"} in pod["spec"]["containers"][0]["env"]
        assert doors.address(replace(seat, attempt=2)) is None


SITE = Site(
    notebook_proxy_image="registry.example/weft:1", url="https://weft.example",
    notebook_url="https://notebooks.example", database=("10.9.0.0/16",),
)  # fmt: skip


def test_the_manifests_are_accepted_and_the_proxy_s_pod_is_allowed_where_it_runs(kubernetes: TestCluster) -> None:
    rights.scheduler(kubernetes, ["nlp"], site=SITE)
    deployment = kubernetes.request("GET", "/apis/apps/v1/namespaces/weft/deployments/weft-notebooks")
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried", **template["metadata"]}}
    made = kubernetes.request("POST", "/api/v1/namespaces/weft/pods?dryRun=All", {**pod, "spec": template["spec"]})
    assert made["spec"]["serviceAccountName"] == "weft-notebooks"
    root = {**template["spec"], "securityContext": {"runAsNonRoot": False}}
    with pytest.raises(ApiError, match="runAsNonRoot"):  # the level of that namespace is in force
        kubernetes.request("POST", "/api/v1/namespaces/weft/pods?dryRun=All", {**pod, "spec": root})
    for path in ("services/weft-notebooks", "serviceaccounts/weft-notebooks"):
        assert kubernetes.request("GET", f"/api/v1/namespaces/weft/{path}")
    budget = kubernetes.request("GET", "/apis/policy/v1/namespaces/weft/poddisruptionbudgets/weft-notebooks")
    assert budget["spec"]["maxUnavailable"] == 1
    for namespace in ("weft", "weft-nlp"):
        assert kubernetes.request(
            "GET", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/weft-notebooks"
        )


def test_the_proxy_s_account_may_ask_kubernetes_nothing(kubernetes: TestCluster) -> None:
    rights.scheduler(kubernetes, ["nlp"], site=SITE)
    token = kubernetes.token(f"{SITE.namespace}/{NOTEBOOKS}")
    for path in ("/api/v1/pods", "/api/v1/namespaces/weft-nlp/pods", "/api/v1/namespaces/weft/secrets"):
        with pytest.raises(ApiError) as refused:
            kubernetes.request("GET", path, token=token)
        assert refused.value.status == 403


def test_a_notebook_s_service_has_the_name_and_port_at_which_the_proxy_without_rights_looks(
    kubernetes: TestCluster,
) -> None:
    config = rights.scheduler(kubernetes, ["nlp"], site=SITE)
    seat = Seat(uuid.UUID(UID), 1, "nlp", "plots", 8888, "token")
    host, _, port = ServiceDoors("weft-").address(seat).rpartition(":")
    name, namespace, _ = host.split(".")
    with closing(KubernetesCluster(find(str(config)))) as cluster:
        cluster.start([replace(pod_of(job(type="notebook", name="plots")), node="a", gpus=(0,))])
        path = f"/api/v1/namespaces/{namespace}"
        kubernetes.wait_for(lambda: bool(kubernetes.request("GET", f"{path}/pods")["items"]), "its pod")
        service = kubernetes.request("GET", f"{path}/services/{name}")
        (pod,) = kubernetes.request("GET", f"{path}/pods")["items"]
        assert [one["targetPort"] for one in service["spec"]["ports"]] == [int(port)]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        # What the team's fence lets the proxy in to.
        fence = kubernetes.request(
            "GET", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/weft-notebooks"
        )
        assert fence["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert fence["spec"]["ingress"][0]["ports"][0]["port"] == int(port)
