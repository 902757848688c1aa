"""Where a notebook's server is, by a real API server and with the rights of the account that shows logs."""

import uuid
from contextlib import closing
from dataclasses import replace

import pytest

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.manifests.site import READER
from controlplane.notebookproxy.kubernetes import KubernetesDoors
from controlplane.queries.accounts.visiting import Seat
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
