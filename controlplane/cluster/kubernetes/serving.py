"""The Services of workloads: made before the first pod, owned by the pods, taken away with the last of them.

Kubernetes' garbage collector deletes an object when none of its owners is left, so that nothing of ours has to notice
the end of a workload. The name of a notebook or service may be a later workload's, which then takes the Service over.
A service's PodDisruptionBudget and ServiceMonitor are owned in the same way.

While a canary has a part of the requests, our queue in front of the service splits them, as an annotation of the
Service says. Where there is no queue but Istio, a DestinationRule names the replicas of both revisions by their label,
and a VirtualService gives each its part; both are there only so long, and are owned by the Service.
"""

import json
import time
from collections.abc import Sequence

import structlog

from autoscaler.latency import ANSWER
from controlplane.cluster.kubernetes import names, services
from controlplane.cluster.kubernetes.api import MERGE, STRATEGIC, Api, Json, RefusedError
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.port import Address, ClusterUnreachable, PodSpec, Split

ASK_SECONDS = 300.0  # between two looks whether a kind is there
RULES, ROUTES = "destinationrules", "virtualservices"  # of Istio
NOT_FOUND = 404
NOBODY = "00000000-0000-0000-0000-000000000000"  # uid of no pod
MAX_OWNERS = 64  # of a gang, which comes and goes as a whole

log = structlog.get_logger(__name__)


async def serve(api: Api, pod: PodSpec, namespace: str) -> None:
    """Let the Service of this pod's workload be there. Raises RefusedError when its name is taken by another owner."""
    body = services.build(pod, namespace=namespace)
    if body is None:
        return
    try:
        await api.request("POST", _collection(namespace), body)
    except RefusedError as error:
        if error.reason != "AlreadyExists":
            raise
        if body["metadata"]["name"] != names.gang_service(pod.workload):  # that name is ours only
            await _take_over(api, body)


async def own(api: Api, workers: Sequence[tuple[PodSpec, Worker]], namespace: str) -> None:
    """Tie the Service to these pods of one workload. When that fails, it only stays longer than it should."""
    body = services.build(workers[0][0], namespace=namespace) if workers else None
    if body is None:
        return
    body["metadata"]["ownerReferences"] = [_owner(worker) for _, worker in workers[:MAX_OWNERS]]
    change: Json = {"metadata": {"ownerReferences": body["metadata"]["ownerReferences"]}}
    try:
        try:
            await api.request("PATCH", _path(body), change, kind=STRATEGIC)
        except RefusedError as error:
            if error.status != 404:  # of an attempt before, collected a moment ago with that one's last pod
                raise
            await api.request("POST", _collection(namespace), body)
    except (RefusedError, ClusterUnreachable) as error:
        log.info("service not tied to its pods", service=body["metadata"]["name"], error=str(error))


async def _take_over(api: Api, body: Json) -> None:
    """Turn the Service of an ended workload of the same name to this one."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    found = await api.request("GET", _path(body))
    labels = found["metadata"].get("labels") or {}
    if names.WORKLOAD not in labels:
        raise RefusedError(
            409, "Foreign", f"A Service named {name} exists in {namespace} and is not Weft's. Rename it."
        )
    without: Json = dict.fromkeys((names.GATEWAY, *services.OWN_SLICES))  # null: what the one before had goes
    if labels[names.WORKLOAD] == body["metadata"]["labels"][names.WORKLOAD]:
        if (queue := _another_queue(found, body, without)) is not None:
            await api.request("PATCH", _path(body), queue, kind=STRATEGIC)
        return
    anew: Json = {"$patch": "replace"}
    if names.SPLIT in (found["metadata"].get("annotations") or {}) and names.GATEWAY not in labels:
        await _drop_split(api, labels[names.WORKLOAD], namespace)
    notes: Json = {names.QUEUE: None, names.SPLIT: None, **body["metadata"].get("annotations", {})}
    change: Json = {
        "metadata": {
            "labels": {**without, **body["metadata"]["labels"]},
            "annotations": notes,
            "ownerReferences": [anew],
        },
        "spec": {"selector": body["spec"]["selector"], "ports": [*body["spec"]["ports"], anew]},
    }
    await api.request("PATCH", _path(body), change, kind=STRATEGIC)


def _another_queue(found: Json, body: Json, without: Json) -> Json | None:
    """What changes where the job file has another queue by now than the Service; None: nothing."""
    was = (found["metadata"].get("annotations") or {}).get(names.QUEUE)
    now = body["metadata"].get("annotations", {}).get(names.QUEUE)
    if was == now or (was and now and json.loads(was) == json.loads(now)):
        return None
    meta: Json = {"labels": {**without, **body["metadata"]["labels"]}, "annotations": {names.QUEUE: now}}
    # Without a queue only Kubernetes lists the replicas, and it needs the selector for that.
    return {"metadata": meta, **({} if now else {"spec": {"selector": body["spec"]["selector"]}})}


async def keep_address(api: Api, address: Address, namespace: str, *, on: bool) -> None:
    """Have a service's Service stay without a pod of its own, or be collected.

    Without an owner nothing takes it away. With one that is no more, Kubernetes' garbage collector does: so ours needs
    no right to delete Services. A Service that another workload has by now is left alone.
    """
    path = f"{_collection(namespace)}/{names.address_service(address.workload, address.name)}"
    try:
        found = await api.request("GET", path)
        meta = found["metadata"]
        if (meta.get("labels") or {}).get(names.WORKLOAD) != address.workload:
            return
        gone = {"apiVersion": "v1", "kind": "Pod", "name": f"{address.workload}-0-0", "uid": NOBODY}
        owners: list[Json] = [{"$patch": "replace"}, *([] if on else [gone])]
        same = {"resourceVersion": meta["resourceVersion"]}
        await api.request("PATCH", path, {"metadata": {"ownerReferences": owners, **same}}, kind=STRATEGIC)
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise


async def split(api: Api, wanted: Split, namespace: str) -> None:
    """Have a service's requests split by our queue in front of it, else by Istio. Raises RefusedError without both."""
    note: Json = {"revision": wanted.revision, "percent": wanted.percent, "within": wanted.within}
    note |= {} if wanted.of == ANSWER else {"of": wanted.of}
    text = None if wanted.percent is None else json.dumps({k: v for k, v in note.items() if v is not None})
    path = f"{_collection(namespace)}/{names.address_service(wanted.workload, wanted.name)}"
    change: Json = {"metadata": {"annotations": {names.SPLIT: text}}}
    by_istio = not wanted.has_queue and await _has_istio(api)
    if text is not None and not (wanted.has_queue or by_istio):
        raise RefusedError(
            409, "NotSplit", f"Nothing splits the requests of {wanted.name}: it has no gateway, and Istio is not here."
        )
    try:
        service = await api.request("PATCH", path, change, kind=STRATEGIC)
    except RefusedError as error:
        if error.status == NOT_FOUND and text is None:
            return  # it went with its last pod, and what it owned with it
        raise
    if by_istio and text is not None:
        await _put_split(api, wanted, service)
    elif by_istio:
        await _drop_split(api, wanted.workload, namespace)


async def _has_istio(api: Api) -> bool:
    """Whether the cluster knows Istio's kinds."""
    try:
        await api.request("GET", f"/apis/{services.ISTIO}")
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


async def _put_split(api: Api, split: Split, service: Json) -> None:
    """Let these requests be split. A route names only what a rule has, so the rule comes first."""
    for plural, body in ((RULES, services.split_rule(split, service)), (ROUTES, services.split_route(split, service))):
        where = _of_istio(plural, service["metadata"]["namespace"])
        try:
            await api.request("POST", where, body)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            meta = {"ownerReferences": body["metadata"]["ownerReferences"]}
            change = {"metadata": meta, "spec": body["spec"]}
            await api.request("PATCH", f"{where}/{body['metadata']['name']}", change, kind=MERGE)


async def _drop_split(api: Api, workload: str, namespace: str) -> None:
    """Split them no longer: the route goes first."""
    for plural in (ROUTES, RULES):
        try:
            await api.request("DELETE", f"{_of_istio(plural, namespace)}/{names.around(workload)}")
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise


def _of_istio(plural: str, namespace: str) -> str:
    return f"/apis/{services.ISTIO}/namespaces/{namespace}/{plural}"


def _owner(worker: Worker) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": worker.pod, "uid": worker.uid}


def _collection(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def _path(body: Json) -> str:
    return f"{_collection(body['metadata']['namespace'])}/{body['metadata']['name']}"


# --- what stands around replicas --------------------------------------------------------------


async def guard(api: Api, workload: str, least: int, namespace: str) -> None:
    """Have the budget of a service say how many replicas evictions leave; without one no replica is there."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{names.around(workload)}"
    try:
        await api.request("PATCH", path, {"spec": services.to_leave(least)}, kind=MERGE)
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise


class Guards:
    """One instance for an adapter; its event loop uses it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[
            str, tuple[float, bool]
        ] = {}  # by group and version: when it was asked, monotonic, the answer

    async def put(self, workers: Sequence[tuple[PodSpec, Worker]], namespace: str) -> None:
        """Let these replicas of one service have what stands around them; nothing for other workloads."""
        if not workers or not services.has_replicas(workers[0][0]):
            return
        pod = workers[0][0]
        owners: list[Json] = [
            {"apiVersion": "v1", "kind": "Pod", "name": worker.pod, "uid": worker.uid} for _, worker in workers
        ]
        try:
            await self._put("poddisruptionbudgets", services.budget(pod, namespace=namespace), owners)
            if await self._has(services.MONITORING):
                await self._put("servicemonitors", services.monitor(pod, namespace=namespace), owners)
        except (RefusedError, ClusterUnreachable) as error:
            log.info("nothing stands around replicas", workload=pod.workload, error=str(error))

    async def _put(self, plural: str, body: Json, owners: list[Json]) -> None:
        """Make it, or add owners and say anew what it says."""
        meta = body["metadata"]
        where = f"/apis/{body['apiVersion']}/namespaces/{meta['namespace']}/{plural}"
        meta["ownerReferences"] = owners
        try:
            await self._api.request("POST", where, body)
            return
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
        there, kind = f"{where}/{meta['name']}", STRATEGIC
        if body["apiVersion"] == services.MONITORING:
            found = await self._api.request("GET", there)
            before = found["metadata"].get("ownerReferences") or []
            owners = [*before, *(one for one in owners if one["uid"] not in {other["uid"] for other in before})]
            kind = MERGE
        await self._api.request(
            "PATCH", there, {"metadata": {"ownerReferences": owners}, "spec": body["spec"]}, kind=kind
        )

    async def _has(self, version: str) -> bool:
        """Whether the cluster knows this group and version."""
        now = time.monotonic()
        asked, answer = self._known.get(version, (-ASK_SECONDS, False))
        if now - asked >= ASK_SECONDS:
            try:
                await self._api.request("GET", f"/apis/{version}")
                answer = True
            except RefusedError as error:
                if error.status != 404:
                    raise
                answer = False
            self._known[version] = now, answer
        return answer
