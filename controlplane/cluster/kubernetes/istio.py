"""Requests of a service split by Istio, where its kinds are there and our own queue is not in front of the service.

A DestinationRule names the replicas of two revisions by their label, a VirtualService gives each its part. Both are
there only while requests are split, and are owned by the Service, so that they end with it.
"""

from typing import Any

import structlog

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import MERGE, Api, Json, RefusedError
from controlplane.cluster.port import Split

API_VERSION = "networking.istio.io/v1"
RULES, ROUTES = "destinationrules", "virtualservices"
WHOLE = 100  # percent
NOT_FOUND, FORBIDDEN = 404, 403

log = structlog.get_logger(__name__)


async def is_there(api: Api) -> bool:
    """Whether the cluster knows Istio's kinds."""
    try:
        await api.request("GET", f"/apis/{API_VERSION}")
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


async def put(api: Api, split: Split, service: Json) -> None:
    """Let these requests be split. A route names only what a rule has, so the rule comes first."""
    for plural, body in ((RULES, rule(split, service)), (ROUTES, route(split, service))):
        where = f"{collection(plural, service['metadata']['namespace'])}"
        try:
            await api.request("POST", where, body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            meta = {"ownerReferences": body["metadata"]["ownerReferences"]}
            change = {"metadata": meta, "spec": body["spec"]}
            await api.request("PATCH", f"{where}/{body['metadata']['name']}", change, kind=MERGE)


async def drop(api: Api, workload: str, namespace: str) -> None:
    """Split them no longer: the route goes first."""
    for plural in (ROUTES, RULES):
        try:
            await api.request("DELETE", f"{collection(plural, namespace)}/{names.around(workload)}")
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise


def rule(split: Split, service: Json) -> Json:
    """Which replicas are of which revision."""
    subsets = [_subset(number) for number in _both(split)]
    return _object("DestinationRule", split, service, {"host": _host(service), "subsets": subsets})


def route(split: Split, service: Json) -> Json:
    """How many of the requests each gets."""
    percent = split.percent or 0
    parts = {split.revision: percent, split.before: WHOLE - percent}
    routes = [
        {"destination": {"host": _host(service), "subset": f"r{number}"}, "weight": parts[number]}
        for number in _both(split)
    ]
    return _object("VirtualService", split, service, {"hosts": [_host(service)], "http": [{"route": routes}]})


def collection(plural: str, namespace: str) -> str:
    """Where objects of this kind are."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{plural}"


def _both(split: Split) -> list[int]:
    return sorted({split.before, split.revision})


def _subset(number: int) -> Json:
    return {"name": f"r{number}", "labels": {names.REVISION: str(number)}}


def _host(service: Json) -> str:
    return names.host(service["metadata"]["name"], service["metadata"]["namespace"])


def _object(kind: str, split: Split, service: Json, spec: dict[str, Any]) -> Json:
    meta = service["metadata"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": meta["name"], "uid": meta["uid"]}
    labels = {names.WORKLOAD: split.workload, names.TEAM: split.namespace, names.NAME: split.name}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": names.around(split.workload),
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
