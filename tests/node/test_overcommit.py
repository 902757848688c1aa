"""A kubelet refuses what its node has no room for, and nothing that Weft places is ever refused."""

from controlplane.models import Event
from controlplane.testbed.api import Json
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.node import GPU, RealNode
from controlplane.testbed.realnode.settings import NAME
from tests.node.product import IMAGE, Product

PODS = "/api/v1/namespaces/default/pods"
JOBS = 4  # twice what the node has room for


def test_the_kubelet_refuses_more_gpus_than_there_are(node: RealNode, kubernetes: TestCluster) -> None:
    for name, gpus in (("first", 2), ("second", 1)):
        kubernetes.request("POST", PODS, pod(name, gpus))
        kubernetes.wait_for(lambda name=name: status(kubernetes, name)["phase"] != "Pending", f"pod {name}")  # type: ignore[misc]

    assert status(kubernetes, "first")["phase"] == "Running"
    second = status(kubernetes, "second")
    assert (second["phase"], second["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert f"devices unavailable for {GPU}. Requested: 1, Available: 0" in second["message"]


def test_jobs_that_follow_each_other_on_its_gpus_are_never_refused(product: Product) -> None:
    jobs = [product.submit(f"job-{number}", "sleep 1") for number in range(JOBS)]

    for one in jobs:
        product.until_phase(one, "Succeeded")

    assert [(one.attempt, one.failures) for one in jobs] == [(1, 0)] * JOBS


def test_a_job_that_the_kubelet_refuses_is_queued_again_and_used_up_no_retry(
    product: Product, kubernetes: TestCluster
) -> None:
    job = product.submit("job", "sleep 1", retries=0)
    product.decide()
    kubernetes.request("POST", PODS, pod("stranger", 2))  # quicker than we are
    kubernetes.wait_for(lambda: status(kubernetes, "stranger")["phase"] == "Running", "pod stranger")
    product.carry_out()

    product.until_phase(job, "Queued")

    assert product.story(job) == [
        ("Submitted", ""),
        ("Admitted", ""),
        ("Requeued", "OutOfGpu"),
    ]
    assert job.failures == 0
    told = Event.objects.get(workload=job.pk, kind="Requeued").message
    assert told.startswith(f"Node {NAME} did not start worker 0: OutOfGpu. It is tried again in 60 s")


def pod(name: str, gpus: int) -> Json:
    """A pod that was put on the node without asking any scheduler."""
    limits = {"limits": {GPU: str(gpus)}}
    container = {"name": "main", "image": IMAGE, "command": ["/bin/sleep", "600"], "resources": limits}
    return {"metadata": {"name": name}, "spec": {"nodeName": NAME, "containers": [container]}}


def status(server: TestCluster, name: str) -> Json:
    found: Json = server.request("GET", f"{PODS}/{name}")["status"]
    return found
