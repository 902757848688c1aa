"""Deployments of services that Kubernetes' own autoscaler scales (docs/native-scaling.md): built, and applied.

What is applied never says how many replicas there are: that number is the autoscaler's alone. Its pods are made of the
same template as the pods that Weft makes itself, less what the admission server writes on pods of queued objects.
"""

from typing import Any

from controlplane.adopted import kinds
from controlplane.adopted.port import Service
from controlplane.cluster.kubernetes import binder, names, pods
from controlplane.cluster.kubernetes.api import Api, Json, RefusedError
from controlplane.cluster.port import PodSpec
from gpushare.gpu import WHOLE

FIELD_MANAGER = "weft"
APPLY = "application/apply-patch+yaml"
INSTANCE = "app.kubernetes.io/instance"  # label by which it knows its pods
NOT_FOUND, CONFLICT = 404, 409


def build(service: Service, namespace: str) -> Json:
    """The Deployment of a service, without a number of replicas."""
    made = pods.build(_pod(service), namespace=namespace)
    theirs = {key: value for key, value in made["metadata"]["labels"].items() if "/" not in key}
    chosen = {INSTANCE: service.uid}
    meta: Json = {
        "name": service.deployment,
        "namespace": namespace,
        "labels": {
            kinds.QUEUE: service.team,
            names.NAME: service.name,
            "app.kubernetes.io/managed-by": "weft",
        },
        "annotations": {kinds.MADE_FOR: service.uid},
    }
    spec = {
        "selector": {"matchLabels": chosen},
        "template": {"metadata": {"labels": theirs | chosen}, "spec": {**made["spec"], "restartPolicy": "Always"}},
    }
    body = {"apiVersion": kinds.DEPLOYMENT.api_version, "kind": kinds.DEPLOYMENT.kind, "metadata": meta, "spec": spec}
    meta["annotations"][names.DIGEST] = binder.digest(body)
    return body


def digest_of(manifest: kinds.Json) -> str:
    """Of what it was made of."""
    return str(kinds.at(manifest, "metadata", "annotations", names.DIGEST) or "")


async def apply(api: Api, body: Json, *, is_there: bool) -> None:
    """Have it be so, by server-side apply. Raises RefusedError where its name is taken by another one."""
    meta: Any = body["metadata"]
    path = kinds.DEPLOYMENT.path(meta["namespace"], meta["name"])
    if not is_there:
        await _refuse_another(api, path, meta)
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    await api.request("PATCH", path, body, query=query, kind=APPLY)


async def _refuse_another(api: Api, path: str, meta: Any) -> None:
    try:
        found = await api.request("GET", path)
    except RefusedError as error:
        if error.status == NOT_FOUND:
            return
        raise
    stamp = kinds.at(found, "metadata", "annotations", kinds.MADE_FOR)
    if stamp == meta["annotations"][kinds.MADE_FOR]:
        return
    what = "of a service before is still leaving" if stamp else "exists and is not Weft's. Rename or delete it"
    raise RefusedError(CONFLICT, "Foreign", f"A {kinds.DEPLOYMENT.kind} named {meta['name']} {what}.")


def _pod(service: Service) -> PodSpec:
    """Any of its replicas: where it goes, and which attempt and rank it is, its Binding says."""
    size = service.cpu_milli, service.memory
    return PodSpec(service.uid, 0, 0, 1, "", (), WHOLE, 0, *size, service.team, dict(service.spec))
