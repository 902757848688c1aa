"""The port `Owners` over a real API server: lists by label, and a few small writes."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from controlplane.adopted import kinds, native
from controlplane.adopted.kinds import OwnerKind
from controlplane.adopted.port import Look, Owner, Service
from controlplane.cluster.kubernetes import names, notes
from controlplane.cluster.kubernetes.api import MERGE, Api, Json, RefusedError
from controlplane.cluster.kubernetes.owned import deployments
from controlplane.cluster.kubernetes.queued import suspension
from controlplane.cluster.kubernetes.store import Store

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MISSING = 404

log = structlog.get_logger(__name__)


class KubernetesOwners:
    """Each look is one list of each kind; a kind that the cluster does not know has no objects."""

    def __init__(
        self,
        api: Api,
        clock: Callable[[], float],
        watched: Callable[[], Store],
        prefix: str,
        *,
        has_autoscalers: bool = False,
    ) -> None:
        self._prefix = prefix
        self._api = api
        self._has_autoscalers = has_autoscalers
        self._clock = clock
        self._watched = watched

    def seen(self) -> Look:
        """Everything there is now. Raises ClusterUnreachable."""
        return self._api.call(self._seen(self._watched()))

    async def _seen(self, store: Store) -> Look:
        listed = await self._api.request("GET", f"/api/v1/namespaces?labelSelector={names.TEAM}", accept=METADATA)
        teams = {one["metadata"]["name"]: one["metadata"]["labels"][names.TEAM] for one in listed["items"] or ()}
        found = [(kind, one) for kind in kinds.KINDS for one in await self._list(kind)]
        inside = [(kind, one) for kind, one in found if one["metadata"]["namespace"] in teams]
        owners = tuple(Owner(kind, teams[one["metadata"]["namespace"]], one) for kind, one in inside)
        left = {one["metadata"]["uid"] for _, one in found} - {owner.object_uid for owner in owners}
        others = {team: (0, 0) for team in teams.values()} | {
            teams[name]: found for name, found in store.others().items() if name in teams
        }
        return Look(owners, frozenset(left), others, await self._autoscalers() if self._has_autoscalers else None)

    async def _autoscalers(self) -> dict[str, Json]:
        """Those that we made, by the uid of what they scale."""
        path = f"/apis/{native.API_VERSION}/{native.PLURAL}?labelSelector={native.WORKLOAD}"
        answer = await self._api.request("GET", path)
        return {one["metadata"]["labels"][native.WORKLOAD]: one for one in answer["items"] or ()}

    async def _list(self, kind: OwnerKind) -> list[Json]:
        try:
            answer = await self._api.request(
                "GET", f"/apis/{kind.api_version}/{kind.plural}?labelSelector={kinds.QUEUE}"
            )
        except RefusedError as error:
            if error.status == MISSING:
                return []
            raise
        items: list[Json] = answer["items"] or []
        return items

    def pods(self, owner: Owner) -> int:
        """How many pods it has that have not ended and are to stay, as the informer knows."""
        return self._watched().alive(owner.uid)

    def hold(self, owner: Owner) -> None:
        """Suspend it, unless it was changed since it was seen."""
        path = owner.kind.path(owner.namespace, owner.name)
        change = suspension(owner.kind, True, {"uid": owner.object_uid, "resourceVersion": owner.version})
        self._best(self._api.request("PATCH", path, change, kind=MERGE), owner, "not held back")

    def scale(self, owner: Owner, autoscaler: Mapping[str, Any]) -> str:
        """Make it, or have it say what it is to say. Why not, if so."""
        try:
            self._api.call(self._scale(owner, dict(autoscaler)))
        except RefusedError as error:
            return f"Its autoscaler was not made: {error}"
        return ""

    async def _scale(self, owner: Owner, body: Json) -> None:
        where = _autoscalers_in(owner)
        try:
            await self._api.request("POST", where, body)
            return
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
        there = await self._api.request("GET", f"{where}/{owner.name}")
        if (there["metadata"].get("labels") or {}).get(native.WORKLOAD) != owner.uid:
            raise RefusedError(
                409, "Foreign", f"A {native.KIND} named {owner.name} exists and is not Weft's. Rename or delete it."
            )
        await self._api.request("PATCH", f"{where}/{owner.name}", {"spec": body["spec"]}, kind=MERGE)

    def unscale(self, owner: Owner) -> bool:
        """Delete its autoscaler."""
        path = f"{_autoscalers_in(owner)}/{owner.name}"
        self._best(self._api.request("DELETE", path), owner, "autoscaler not deleted")
        return True

    def make(self, service: Service, found: Owner | None) -> str:
        """Apply its Deployment, if what is there was not made of the same. Why it is not there, if so."""
        body = deployments.build(service, names.namespace(service.team, self._prefix))
        if found is not None and deployments.digest_of(found.manifest) == deployments.digest_of(body):
            return ""
        try:
            self._api.call(deployments.apply(self._api, body, is_there=found is not None))
        except RefusedError as error:
            return f"Its Deployment was not made: {error}"
        return ""

    def hand_over(self, owner: Owner, replicas: int) -> None:
        """Apply the number that it has by a manager of its own (native.HANDOVER)."""
        body = {
            "apiVersion": owner.kind.api_version,
            "kind": owner.kind.kind,
            "metadata": {"name": owner.name, "namespace": owner.namespace, "resourceVersion": owner.version},
            "spec": {"replicas": replicas},
        }
        path, query = owner.kind.path(owner.namespace, owner.name), {"fieldManager": native.HANDOVER}
        work = self._api.request("PATCH", path, body, query=query, kind=deployments.APPLY)
        self._best(work, owner, "replicas not handed over")

    def unmake(self, owner: Owner) -> None:
        """Delete its autoscaler and then itself; Kubernetes' garbage collector has its pods end."""
        self.unscale(owner)
        path = owner.kind.path(owner.namespace, owner.name)
        options = {"preconditions": {"uid": owner.object_uid}, "propagationPolicy": "Background"}
        self._best(self._api.request("DELETE", path, options), owner, "not deleted")

    def tell(self, owner: Owner, reason: str, message: str, *, is_warning: bool) -> None:
        """One Kubernetes event on the object."""
        at = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        digest = hashlib.blake2b(f"{owner.uid}/{reason}/{message}/{at}".encode(), digest_size=8).hexdigest()
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{owner.name[:200]}.{digest}", "namespace": owner.namespace},
            "involvedObject": {
                "apiVersion": owner.kind.api_version, "kind": owner.kind.kind, "name": owner.name,
                "namespace": owner.namespace, "uid": owner.object_uid,
            },
            "reason": reason[: notes.LONGEST_REASON],
            "message": notes.cut(message),
            "type": "Warning" if is_warning else "Normal",
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": notes.COMPONENT},
            "reportingComponent": notes.COMPONENT,
            "reportingInstance": "",
        }  # fmt: skip
        path = f"/api/v1/namespaces/{owner.namespace}/events"
        self._best(self._api.request("POST", path, body), owner, "not told")

    def _best(self, work: object, owner: Owner, failure: str) -> None:
        try:
            self._api.call(work)  # type: ignore[arg-type]
        except RefusedError as error:  # it is gone, or was changed meanwhile: the next look sees it as it is
            log.info(failure, object=owner.label, namespace=owner.namespace, error=str(error))


def _autoscalers_in(owner: Owner) -> str:
    return f"/apis/{native.API_VERSION}/namespaces/{owner.namespace}/{native.PLURAL}"
