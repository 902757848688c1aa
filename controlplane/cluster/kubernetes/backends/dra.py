"""Dynamic Resource Allocation: a ResourceClaim for a part of one device's consumable capacity (KEP-5075).

kube-scheduler allocates the claim from the ResourceSlices that a driver publishes, on the node that we name, and binds
the pod: claims of others are in its account as well. Which device of the node it takes is its decision, so the GPU that
Weft counts the share on may be another one. Class and capacities are those of HAMi's DRA driver, the one that offers
parts of NVIDIA's GPUs so far. Source: demo/yaml/setup.yaml of Project-HAMi/k8s-dra-driver, resource.k8s.io/v1.
"""

from controlplane.cluster.kubernetes.backends.port import Json, main, say
from controlplane.cluster.kubernetes.backends.variables import HIDDEN, SAID, noted
from controlplane.cluster.port import PodSpec

CLASS = "hami-core-gpu.project-hami.io"
CORES, MEMORY = "cores", "memory"  # percent of the device, bytes
REQUEST = "gpu"  # of the claim, and what the pod calls the claim
GROUP, VERSION, PLURAL = "resource.k8s.io", "v1", "resourceclaims"
SCHEDULER = "default-scheduler"


class Dra:
    """The claim has the pod's name and belongs to it, so that it goes with the pod."""

    accounts = True
    is_asked_for = True
    is_scheduled = True

    def dress(self, pod: PodSpec, body: Json) -> None:
        """Name the claim, and the node to kube-scheduler; of other devices the container sees none."""
        body["spec"] |= {
            "schedulerName": SCHEDULER,
            "resourceClaims": [{"name": REQUEST, "resourceClaimName": pod.name}],
        }
        if pod.node:
            body["spec"]["affinity"] = _only_on(pod.node)
        main(body).setdefault("resources", {})["claims"] = [{"name": REQUEST}]
        say(body, HIDDEN, *(noted(name, annotation) for name, annotation in SAID.items()))

    def annotations(self, pod: PodSpec, device: str, at: float) -> dict[str, str]:
        """Nothing: there is no Binding of ours."""
        return {}

    def claim(self, pod: PodSpec, owner: Json) -> Json | None:
        """A part of one device, in percent of it and memory."""
        wanted = {CORES: str(pod.milli // 10), MEMORY: f"{pod.gpu_memory}Mi"}
        exactly = {"deviceClassName": CLASS, "capacity": {"requests": wanted}}
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "ResourceClaim",
            "metadata": {"name": pod.name, "ownerReferences": [owner], "labels": dict(body_labels(pod))},
            "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
        }


def body_labels(pod: PodSpec) -> dict[str, str]:
    """By which the claims of a workload are found."""
    return {"weft.dev/workload": pod.workload}


def path(namespace: str) -> str:
    """Where claims are made."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def _only_on(node: str) -> Json:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
