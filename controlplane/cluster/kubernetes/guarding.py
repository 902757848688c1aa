"""What stands around the replicas of a service, beside its Service: made once a pod owns it, gone with the last one.

A PodDisruptionBudget always, a ServiceMonitor of the Prometheus operator where the cluster knows that kind. What cannot
be made is made with the next replica that starts: no replica waits for it.
"""

import time
from collections.abc import Sequence

import structlog

from controlplane.cluster.kubernetes import services
from controlplane.cluster.kubernetes.api import STRATEGIC, Api, Json, RefusedError
from controlplane.cluster.kubernetes.podstatus import Worker
from controlplane.cluster.port import ClusterUnreachable, PodSpec

MERGE = "application/merge-patch+json"  # custom resources have no strategic one
ASK_SECONDS = 300.0  # between two looks whether a kind is there

log = structlog.get_logger(__name__)


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
