"""A share's device is taken in the kubelet's own accounting, and the container knows what it may use."""

from controlplane.cluster.kubernetes.placeholders import PATH
from controlplane.models import Workload
from controlplane.services.workloads import workloads
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.node import MODEL
from controlplane.testbed.realnode.settings import NAME
from tests.node.product import GPUS, Product
from tests.node.test_overcommit import PODS, pod, status

SAYS = 'env | grep -e NVIDIA -e WEFT_GPU | sort; trap "exit 0" TERM; sleep 600 & wait'
SHARE = {"guarantee": 0.25, "limit": 0.5, "memory": "2Gi"}


def test_the_kubelet_gives_nothing_else_a_device_with_shares(product: Product, kubernetes: TestCluster) -> None:
    work = shared(product, "shared")
    product.until_phase(work, "Running")
    two = shared(product, "beside")
    product.until_phase(two, "Running")

    assert placed(kubernetes, "both-gpus", 2) == ("Failed", "UnexpectedAdmissionError")
    assert placed(kubernetes, "the-other-gpu", 1) == ("Running", "")
    kubernetes.delete(f"{PODS}/the-other-gpu")
    kubernetes.wait_for(lambda: not kubernetes.exists(f"{PODS}/the-other-gpu"), "the end of the other pod")

    for one in (work, two):
        workloads.stop(workload=one, actor="alice")
    product.until(lambda: not kubernetes.request("GET", PATH)["items"], "the end of the placeholder")
    assert placed(kubernetes, "both-at-last", 2) == ("Running", "")


def test_a_container_with_a_share_knows_what_it_may_use(product: Product) -> None:
    work = shared(product, "shared")
    product.until_phase(work, "Running")
    product.until(lambda: len(product.log(work)) == 4, "what it printed")
    assert product.log(work) == [
        f"NVIDIA_VISIBLE_DEVICES=GPU-{NAME}-{GPUS - 1}",  # what the device plugin gave its placeholder: the last one
        "WEFT_GPU_GUARANTEE_MILLI=250",
        "WEFT_GPU_LIMIT_MILLI=500",
        "WEFT_GPU_MEMORY_MIB=2048",
    ]


def shared(product: Product, name: str) -> Workload:
    resources = {"gpu_share": SHARE, "gpu_model": [MODEL], "cpu": "50m", "memory": "32Mi"}
    return product.submit(name, SAYS, resources=resources, checkpoint={"grace": "1s"})


def placed(server: TestCluster, name: str, gpus: int) -> tuple[str, str]:
    """What the kubelet makes of a pod of others that asks for so many."""
    server.request("POST", PODS, pod(name, gpus))
    server.wait_for(lambda: status(server, name)["phase"] != "Pending", f"pod {name} on {NAME}")
    return status(server, name)["phase"], status(server, name).get("reason", "")
