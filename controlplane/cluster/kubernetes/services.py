"""Services: one without an address for a gang, one with an address for a notebook or an inference workload.

And what stands around the replicas of a service: what keeps them from being evicted all at once, what has them scraped,
and what has Istio split their requests (serving.py).
"""

import json
from typing import Any

from controlplane.cluster.kubernetes import distributed, names
from controlplane.cluster.port import PodSpec, Split
from controlplane.domain.addresses import ports
from scheduler.model.workload import Kind

Json = dict[str, Any]

MONITORING = "monitoring.coreos.com/v1"  # of the Prometheus operator
SCRAPE, SAMPLES = "15s", 10_000
ISTIO = "networking.istio.io/v1"
WHOLE = 100  # percent
COLD_SECONDS = 900.0  # that the queue of a service that may have no replica holds a request while one starts
IDENTITY = (  # labels of a pod, as Prometheus writes them, and what they are called on a series
    ("weft_dev_workload", "workload"),
    ("internal_weft_dev_attempt", "attempt"),
    ("internal_weft_dev_rank", "rank"),
)
# While traffic goes through our queue the Service has no selector: nothing is to copy its old Endpoints into slices.
OWN_SLICES = {"endpointslice.kubernetes.io/skip-mirror": "true"}


def build(pod: PodSpec, *, namespace: str) -> Json | None:
    """The Service of this pod's workload, the same whichever of its pods is given; None when it needs none."""
    kind = pod.spec.get("type")
    if kind in (Kind.NOTEBOOK, Kind.INFERENCE):
        name = names.address_service(pod.workload, str(pod.spec.get("name", "")))
        made = _service(pod, namespace, name, {"type": "ClusterIP", "ports": _ports(ports(pod.spec))})
        if has_replicas(pod):
            made["spec"]["selector"] = names.replicas(pod.workload)
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


def has_replicas(pod: PodSpec) -> bool:
    """Whether it is one of a service."""
    return pod.spec.get("type") == Kind.INFERENCE


def budget(pod: PodSpec, *, namespace: str) -> Json:
    """How many replicas of this pod's service that serve an eviction has to leave: all of its least but one.

    Those on standby are not counted: they answer nothing until they wake. Of pods without a controller Kubernetes
    counts only what is left, so it cannot be said how many may go.
    """
    normalised = pod.spec.get("normalised")
    workers = normalised.get("workers") if isinstance(normalised, dict) else None
    least = int(workers.get("min", 1)) if isinstance(workers, dict) else 1
    spec = {
        **to_leave(least),
        "selector": {"matchLabels": names.replicas(pod.workload)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": names.around(pod.workload), "namespace": namespace, "labels": _labels(pod)},
        "spec": spec,
    }


def to_leave(least: int) -> Json:
    """What a budget says of a service with so many replicas at least."""
    return {"minAvailable": max(0, least - 1)}


def monitor(pod: PodSpec, *, namespace: str) -> Json:
    """Has the replicas of this pod's service scraped, each under the labels that docs/metrics.md names."""
    port = ports(pod.spec)[0]
    endpoint = {
        "port": f"p{port}",
        "path": "/metrics",
        "interval": SCRAPE,
        "honorLabels": False,
        "relabelings": [
            {"sourceLabels": [f"__meta_kubernetes_pod_label_{source}"], "targetLabel": target}
            for source, target in IDENTITY
        ],
    }
    return {
        "apiVersion": MONITORING,
        "kind": "ServiceMonitor",
        "metadata": {"name": names.around(pod.workload), "namespace": namespace, "labels": _labels(pod)},
        "spec": {
            "selector": {"matchLabels": {names.WORKLOAD: pod.workload}},
            "endpoints": [endpoint],
            "sampleLimit": SAMPLES,
        },
    }


def split_rule(split: Split, service: Json) -> Json:
    """Which replicas are of which revision."""
    subsets = [_subset(number) for number in _both(split)]
    return _of_istio("DestinationRule", split, service, {"host": _host(service), "subsets": subsets})


def split_route(split: Split, service: Json) -> Json:
    """How many of the requests each gets."""
    percent = split.percent or 0
    parts = {split.revision: percent, split.before: WHOLE - percent}
    routes = [
        {"destination": {"host": _host(service), "subset": f"r{number}"}, "weight": parts[number]}
        for number in _both(split)
    ]
    return _of_istio("VirtualService", split, service, {"hosts": [_host(service)], "http": [{"route": routes}]})


def gateway(pod: PodSpec) -> Json | None:
    """The queue in front of the service as its job file has it, if any."""
    normalised = pod.spec.get("normalised")
    if not isinstance(normalised, dict) or not normalised.get("gateway"):
        return None
    queue: Json = normalised["gateway"]
    may_sleep = normalised.get("scale_to_zero_after_seconds") is not None
    return {**queue, "patience": COLD_SECONDS} if may_sleep else queue


def _service(pod: PodSpec, namespace: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": _labels(pod)},
        "spec": {"selector": {names.WORKLOAD: pod.workload}, **spec},
    }


def _labels(pod: PodSpec) -> dict[str, str]:
    return {
        names.WORKLOAD: pod.workload,
        names.TEAM: pod.namespace,
        names.NAME: str(pod.spec.get("name", "")),
        names.KIND: str(pod.spec.get("type", "")),
    }


def _ports(numbers: list[int]) -> list[Json]:
    return [{"name": f"p{n}", "port": n, "targetPort": n, "protocol": "TCP"} for n in dict.fromkeys(numbers)]


def _both(split: Split) -> list[int]:
    return sorted({split.before, split.revision})


def _subset(number: int) -> Json:
    return {"name": f"r{number}", "labels": {names.REVISION: str(number)}}


def _host(service: Json) -> str:
    return names.host(service["metadata"]["name"], service["metadata"]["namespace"])


def _of_istio(kind: str, split: Split, service: Json, spec: dict[str, Any]) -> Json:
    meta = service["metadata"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": meta["name"], "uid": meta["uid"]}
    labels = {names.WORKLOAD: split.workload, names.TEAM: split.namespace, names.NAME: split.name}
    return {
        "apiVersion": ISTIO,
        "kind": kind,
        "metadata": {
            "name": names.around(split.workload),
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
