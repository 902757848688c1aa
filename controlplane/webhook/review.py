"""An AdmissionReview and its answer. Pure: what has to be looked up is asked of a `Lookup`.

What this server stamps (its own labels and annotations, gates) only it may write: it refuses them from every sender but
Weft's own accounts, which the API server does not ask it about.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from controlplane.adopted.kinds import OwnerKind

Json = dict[str, Any]

RESERVED = ("weft.dev/", "internal.weft.dev/")
STAMPED = "internal.weft.dev/"
MAX_SHOWN = 80


class DeniedError(Exception):
    """The object is refused; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class Top:
    """The object at the top of a pod's owners. is_queued: whether it has the label weft.dev/queue.

    uid: of the workload that it is. is_ours: whether it is the Deployment that Weft made for a service.
    """

    kind: OwnerKind | None  # None: a kind that cannot be queued
    label: str  # Job/train
    uid: str
    is_queued: bool
    is_ours: bool = False


class Lookup(Protocol):
    """What a review has to know of the world."""

    async def top(self, namespace: str, references: list[Json]) -> Top | None:
        """The object at the top of these ownerReferences; None if no controller has made what has them."""

    async def author(self, namespace: str, reference: Json) -> str:
        """The Kubernetes user that a CronJob's author is, by its stamp; empty if it has none, or is not there."""

    async def refusal(self, username: str, team: str) -> str:
        """Why this Kubernetes user may not submit in a team, with the fix; empty if they may."""

    async def objection(self, operation: str, thing: Json, old: Json | None, username: str) -> str:
        """Why a custom resource of Weft's may not be written so by this user, with the fix; empty if it may."""

    def is_controller(self, username: str) -> bool:
        """Whether this Kubernetes user makes pods for others."""

    def team(self, namespace: str) -> str:
        """The team that a namespace is of."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the API server. `old` is empty for a new object; `object` is what is deleted, for a DELETE."""

    uid: str
    username: str
    groups: tuple[str, ...]
    operation: str
    group: str
    kind: str
    namespace: str
    object: Json
    old: Json

    @property
    def is_new(self) -> bool:
        """Whether the object is being created."""
        return self.operation == "CREATE"


def read(review: object) -> Asked:
    """The request in an AdmissionReview. Raises ValueError for what is none."""
    try:
        request = review["request"]  # type: ignore[index]
        kind, user = request["kind"], request["userInfo"]
        return Asked(
            uid=str(request["uid"]),
            username=str(user.get("username", "")),
            groups=tuple(map(str, user.get("groups") or ())),
            operation=str(request["operation"]),
            group=str(kind.get("group", "")),
            kind=str(kind["kind"]),
            namespace=str(request.get("namespace", "")),
            object=dict(request.get("object") or request.get("oldObject") or {}),
            old=dict(request.get("oldObject") or {}),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"This is no AdmissionReview of admission.k8s.io/v1: {error!r}.") from error


def allowed(uid: str, patch: list[Json]) -> Json:
    """Let it in, changed by this JSON patch."""
    response: Json = {"uid": uid, "allowed": True}
    if patch:
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    return _review(response)


def denied(uid: str, message: str) -> Json:
    """Refuse it."""
    status = {"status": "Failure", "message": f"Weft: {message}", "reason": "Forbidden", "code": 403}
    return _review({"uid": uid, "allowed": False, "status": status})


def difference(before: Json, after: Json) -> list[Json]:
    """The JSON patch from one object to another, by their top-level fields' fields."""
    patch: list[Json] = []
    _differ(before, after, "", patch, depth=2)
    return patch


def _differ(before: Json, after: Json, path: str, patch: list[Json], depth: int) -> None:
    for key in before.keys() | after.keys():
        where = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        old, new = before.get(key), after.get(key)
        if old == new and (key in before) == (key in after):
            continue
        if key not in after:
            patch.append({"op": "remove", "path": where})
        elif key in before and depth > 1 and isinstance(old, dict) and isinstance(new, dict):
            _differ(old, new, where, patch, depth - 1)
        else:
            patch.append({"op": "add", "path": where, "value": new})


def texts(thing: Mapping[str, Any], field: str) -> dict[str, str]:
    """Labels or annotations of an object, as a dictionary of its own."""
    return dict((thing.get("metadata") or {}).get(field) or {})


def shown(value: object) -> str:
    """A value within a message."""
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def _review(response: Json) -> Json:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
