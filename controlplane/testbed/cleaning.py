"""Bringing a test cluster back to how it began, between tests, in a fraction of a second."""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol

from controlplane.testbed.api import ApiError, Json
from controlplane.testbed.nodes import manifest
from controlplane.testbed.parts import REAL_NODE, Layout
from scheduler.model.snapshot import Node

# In the order of deleting: first what would forbid that, or make pods again.
COLLECTIONS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/api/v1/pods",
    "/api/v1/services",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/resourcequotas",
    "/api/v1/events",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/policy/v1/poddisruptionbudgets",
)
CUSTOM = ("/apis/weft.dev/v1beta1/workloads", "/apis/weft.dev/v1beta1/teams")  # where their definitions are installed


class Cleanable(Protocol):
    """What cleaning needs of a test cluster (testbed/kubernetes.py)."""

    @property
    def layout(self) -> Layout:
        """Its folder and ports."""

    def request(self, method: str, path: str) -> Any:
        """Ask the API server."""

    def exists(self, path: str) -> bool:
        """Whether there is anything at this path."""

    def delete(self, *paths: str) -> None:
        """Delete these objects."""

    def add_nodes(self, machines: Sequence[Node]) -> None:
        """Add machines."""

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        """Poll until it is so."""


def empty(cluster: Cleanable, machines: Sequence[Node]) -> None:
    """Delete what is in the collections, and make the nodes what `machines` says; a real one stays."""
    for custom in CUSTOM:  # their definition may have been made a moment ago
        cluster.wait_for(partial(_is_answered, cluster, custom), custom)
    for collection in (*COLLECTIONS, *(custom for custom in CUSTOM if cluster.exists(custom))):
        cluster.delete(*_paths(cluster, collection))
    cluster.wait_for(lambda: not cluster.request("GET", "/api/v1/pods?limit=1")["items"], "the end of all pods")
    wanted = {machine.name: manifest(machine, cluster.layout.kubelet) for machine in machines}
    nodes = cluster.request("GET", "/api/v1/nodes")["items"]
    there = {node["metadata"]["name"]: node for node in nodes if node["metadata"]["name"] != REAL_NODE}
    changed = {name for name, node in there.items() if not _is_like(node, wanted.get(name))}
    cluster.delete(*(f"/api/v1/nodes/{name}" for name in changed))
    absent = set(wanted) - (set(there) - changed)
    cluster.add_nodes([machine for machine in machines if machine.name in absent])


def _is_answered(cluster: Cleanable, collection: str) -> bool:
    """Whether the API server says what is there, or that there is no such thing; not "storage is (re)initializing"."""
    try:
        cluster.exists(collection)
    except ApiError as error:
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise
        return False
    return True


def _paths(cluster: Cleanable, collection: str) -> list[str]:
    """Of the objects in a collection over all namespaces, without the one Service that Kubernetes makes."""
    root, _, kind = collection.rpartition("/")
    found = [item["metadata"] for item in cluster.request("GET", collection)["items"]]
    own = [meta for meta in found if (kind, meta["name"]) != ("services", "kubernetes")]
    return [
        f"{root}/namespaces/{meta['namespace']}/{kind}/{meta['name']}"
        if "namespace" in meta
        else f"{collection}/{meta['name']}"
        for meta in own
    ]


def _is_like(node: Json, wanted: Json | None) -> bool:
    """Whether a node still is as it was made."""
    if wanted is None:
        return False
    conditions = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
    return (
        not node["spec"].get("unschedulable")
        and not node["spec"].get("taints")
        and all(node["metadata"][part] == wanted["metadata"][part] for part in ("labels", "annotations"))
        and all(node["status"][size] == wanted["status"][size] for size in ("capacity", "allocatable"))
        and conditions["Ready"] == "True"
    )
