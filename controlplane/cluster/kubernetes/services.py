"""Services: one without an address for a gang, one with an address for a notebook or an inference workload."""

import json
from typing import Any

from controlplane.cluster.kubernetes import distributed, names
from controlplane.cluster.port import PodSpec
from controlplane.domain.addresses import ports
from scheduler.model.workload import Kind

Json = dict[str, Any]

# While traffic goes through our queue the Service has no selector: nothing is to copy its old Endpoints into slices.
OWN_SLICES = {"endpointslice.kubernetes.io/skip-mirror": "true"}


def build(pod: PodSpec, *, namespace: str) -> Json | None:
    """The Service of this pod's workload, the same whichever of its pods is given; None when it needs none."""
    kind = pod.spec.get("type")
    if kind in (Kind.NOTEBOOK, Kind.INFERENCE):
        name = names.address_service(pod.workload, str(pod.spec.get("name", "")))
        made = _service(pod, namespace, name, {"type": "ClusterIP", "ports": _ports(ports(pod.spec))})
        if queue := gateway(pod):
            made["metadata"]["labels"] |= {names.GATEWAY: "true", **OWN_SLICES}
            made["metadata"]["annotations"] = {names.QUEUE: json.dumps(queue)}
        return made
    if not distributed.is_gang(pod):
        return None
    listening = [distributed.MASTER_PORT, *ports(pod.spec)]
    # Workers find each other while they start; ready they are only afterwards.
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": _ports(listening)}
    return _service(pod, namespace, names.gang_service(pod.workload), spec)


def gateway(pod: PodSpec) -> Json | None:
    """The queue in front of the service as its job file has it, if any."""
    normalised = pod.spec.get("normalised")
    return normalised.get("gateway") if isinstance(normalised, dict) else None


def _service(pod: PodSpec, namespace: str, name: str, spec: Json) -> Json:
    labels = {
        names.WORKLOAD: pod.workload,
        names.TEAM: pod.namespace,
        names.NAME: str(pod.spec.get("name", "")),
        names.KIND: str(pod.spec.get("type", "")),
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": {names.WORKLOAD: pod.workload}, **spec},
    }


def _ports(numbers: list[int]) -> list[Json]:
    return [{"name": f"p{n}", "port": n, "targetPort": n, "protocol": "TCP"} for n in dict.fromkeys(numbers)]
