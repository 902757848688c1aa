"""Finds the object at the top of a pod's owners: a Deployment's ReplicaSet's pod is the Deployment's."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from controlplane.adopted.kinds import BETWEEN, QUEUE, OwnerKind, kind_of, made_for
from controlplane.cluster.kubernetes.api import Api, Json, RefusedError
from controlplane.webhook.review import Top

REMEMBERED = 20_000
DEEPEST = 6


@dataclass(frozen=True, slots=True)
class _Link:
    """One ownerReference that can be followed."""

    kind: OwnerKind | None  # None: only something in between
    path: str
    label: str
    uid: str


class Tops:
    """What was found is kept by uid: an object never gets another owner, and its label stays as it was made."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: OrderedDict[str, Top] = OrderedDict()

    def known(self, references: list[Json]) -> Top | None:
        """What was found before, without asking; from any thread."""
        reference = _controller(references)
        return None if reference is None else self._known.get(str(reference.get("uid", "")))

    async def top(self, namespace: str, references: list[Json]) -> Top | None:
        """The object at the top; None without a controller, or where the one that is named is not there."""
        reference = _controller(references)
        if reference is None:
            return None
        first = str(reference.get("uid", ""))
        if first in self._known:
            return self._known[first]
        found = await self._climb(namespace, reference)
        if found is not None:
            self._known[first] = found
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    async def _climb(self, namespace: str, reference: Json) -> Top | None:
        found: Top | None = None
        for _ in range(DEEPEST):
            link = _link(namespace, reference)
            if link is None:  # a kind that we do not know: what is below it may be queued by itself
                return found or Top(None, _label(reference), str(reference.get("uid", "")), False)
            try:
                thing = await self._api.request("GET", link.path)
            except RefusedError as error:
                if error.status == 404:
                    return None
                raise
            meta: Any = thing["metadata"]
            if meta["uid"] != link.uid:
                return None
            if link.kind is not None:
                service = made_for(link.kind, thing)
                is_queued = QUEUE in (meta.get("labels") or {})
                found = Top(link.kind, link.label, service or link.uid, is_queued, is_ours=bool(service))
            above = _controller(meta.get("ownerReferences") or [])
            if above is None:
                return found or Top(None, link.label, link.uid, False)
            reference = above
        return None


def _controller(references: list[Json]) -> Json | None:
    return next((one for one in references if one.get("controller")), None)


def _link(namespace: str, reference: Json) -> _Link | None:
    version, kind, name = (str(reference.get(key, "")) for key in ("apiVersion", "kind", "name"))
    found = kind_of(version, kind)
    uid = str(reference.get("uid", ""))
    if found is not None:
        return _Link(found, found.path(namespace, name), _label(reference), uid)
    plural = BETWEEN.get((version.partition("/")[0], kind))
    if plural is None:
        return None
    return _Link(None, f"/apis/{version}/namespaces/{namespace}/{plural}/{name}", _label(reference), uid)


def _label(reference: Json) -> str:
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"
