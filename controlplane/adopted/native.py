"""Kubernetes' own way of scaling for a queued Deployment: a HorizontalPodAutoscaler on what Weft measures of it.

Annotations of the Deployment ask for it. Weft makes the autoscaler, owned by the Deployment, and the number of replicas
is the autoscaler's alone: no loop of Weft writes it, and another writer is found by the object's managed fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.adopted import jobfiles
from controlplane.adopted.kinds import Json, at
from controlplane.adopted.port import Owner

SCALING, NATIVE = "weft.dev/scaling", "native"
LEAST, MOST, PER_REPLICA = "weft.dev/min-replicas", "weft.dev/max-replicas", "weft.dev/requests-per-replica"
API_VERSION, KIND, PLURAL = "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"
METRICS_GROUP, METRICS_VERSION = "external.metrics.k8s.io", "v1beta1"
REQUESTS = "weft-requests-per-second"  # of all replicas of one workload, as measured in the newest minute
IN_FLIGHT = "weft-requests-in-flight"  # with all replicas of one workload, and waiting for them, at the newest look
METRICS = (REQUESTS, IN_FLIGHT)
WORKLOAD = "weft.dev/workload"  # label: the uid of the Deployment, which is that of the workload
MOST_REPLICAS = 10_000
# What writes spec.replicas in the autoscaler's name, by the subresource; a Deployment that is created says it once.
AUTOSCALERS = ("kube-controller-manager", "horizontal-pod-autoscaler")


# By which Weft holds the number as it is while nothing owns it. Kubernetes notes who writes it by the subresource
# `scale` only once something owns it, and what a Deployment got by default nothing does.
HANDOVER = "weft-handover"


class UnfitError(Exception):
    """The annotations do not say how it is to be scaled; the message names one and the fix."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Between which bounds, and how much of the metric each replica is to get, in thousandths."""

    least: int
    most: int
    milli_per_replica: int
    metric: str = REQUESTS


def asked(owner: Owner) -> Scaling | None:
    """What a Deployment's annotations ask for; None: it is not scaled so. Raises UnfitError."""
    notes: Mapping[str, Any] = at(owner.manifest, "metadata", "annotations") or {}
    if SCALING not in notes:
        return None
    if notes[SCALING] != NATIVE:
        raise UnfitError(f"{SCALING} is {notes[SCALING]}. Write {NATIVE}, or leave it out.")
    least, most = _whole(notes, LEAST, "1"), _whole(notes, MOST)
    if least > most:
        raise UnfitError(f"{LEAST} is {least} and {MOST} is {most}. Set the least to at most the most.")
    return Scaling(least, most, _milli(notes))


def autoscaler(owner: Owner, scaling: Scaling) -> dict[str, Any]:
    """The autoscaler of a Deployment, as it is to be."""
    metric = {"name": scaling.metric, "selector": {"matchLabels": {WORKLOAD: owner.uid}}}
    target = {"type": "AverageValue", "averageValue": f"{scaling.milli_per_replica}m"}
    meta = {
        "name": owner.name,
        "namespace": owner.namespace,
        "labels": {WORKLOAD: owner.uid, "app.kubernetes.io/managed-by": "weft"},
        "ownerReferences": [
            {
                "apiVersion": owner.kind.api_version, "kind": owner.kind.kind, "name": owner.name,
                "uid": owner.object_uid, "controller": True, "blockOwnerDeletion": False,
            }
        ],
    }  # fmt: skip
    spec = {
        "scaleTargetRef": {"apiVersion": owner.kind.api_version, "kind": owner.kind.kind, "name": owner.name},
        "minReplicas": scaling.least,
        "maxReplicas": scaling.most,
        "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec}


def is_as(found: Json, wanted: Json) -> bool:
    """Whether an autoscaler says what it is to say; the API server writes amounts its own way, and fills in more."""
    there, said = found["spec"], wanted["spec"]
    simple = ("scaleTargetRef", "minReplicas", "maxReplicas")
    return all(there.get(name) == said[name] for name in simple) and _metric(there) == _metric(said)


def _metric(spec: Json) -> Any:
    found = [one.get("external") or {} for one in spec.get("metrics") or ()]
    return [(one.get("metric"), jobfiles.milli(at(one, "target", "averageValue") or "0")) for one in found]


def writers(owner: Owner) -> list[tuple[str, str]]:
    """What owns the number of replicas, by the object's managed fields: manager and subresource."""
    return [
        (str(one.get("manager", "")), str(one.get("subresource", "")))
        for one in at(owner.manifest, "metadata", "managedFields") or ()
        if at(one, "fieldsV1", "f:spec", "f:replicas") is not None
    ]


def other_owner(owner: Owner, found: Json) -> str:
    """What else writes the number of replicas, by the object's managed fields; empty: nothing does.

    Until the autoscaler `found` has scaled it for the first time, the number that whoever made the object gave it is no
    fault. Weft gives its own Deployments none, so one that something writes there is always a fault.
    """
    written = writers(owner)
    scaled = [one for one in written if one[1] == "scale" and one[0] in AUTOSCALERS]
    others = [name for name, part in written if (name, part) not in scaled and name != HANDOVER]
    has_scaled = bool(scaled) or at(found, "status", "lastScaleTime") is not None
    return others[0] if others and (has_scaled or owner.made_for) else ""


def trouble(found: Json) -> tuple[str, str]:
    """Why an autoscaler does not scale, in its own words: reason and message; both empty while it does."""
    for condition in at(found, "status", "conditions") or ():
        if condition.get("type") in ("AbleToScale", "ScalingActive") and condition.get("status") == "False":
            return str(condition.get("reason", "")), str(condition.get("message", ""))
    return "", ""


def _whole(notes: Mapping[str, Any], name: str, default: str = "") -> int:
    text = str(notes.get(name, default))
    if not text.isdigit() or not 1 <= int(text) <= MOST_REPLICAS:
        said = f"is {text[:40]}" if text else "is missing"
        raise UnfitError(f'{name} {said}. Write a whole number from 1 to {MOST_REPLICAS}, such as "4".')
    return int(text)


def _milli(notes: Mapping[str, Any]) -> int:
    text = str(notes.get(PER_REPLICA, ""))
    try:
        value = round(1000 * float(text))
    except (ValueError, OverflowError):
        value = 0
    if not 1 <= value <= 10**12:
        said = f"is {text[:40]}" if text else "is missing"
        raise UnfitError(f'{PER_REPLICA} {said}. Write requests a second for each replica, such as "20" or "0.5".')
    return value
