"""Who says how many replicas a service has: Weft, or Kubernetes' own autoscaler (`scaling: native`)."""

from collections.abc import Mapping
from typing import Any

from controlplane.jobspec.shapes import BAD, Faults
from scheduler.model.workload import SPREADS

WEFT, NATIVE = "weft", "native"
WAYS = (WEFT, NATIVE)
DEVICE, HOST = "device", "host"
MEMORIES = (DEVICE, HOST)  # where the weights of replicas on standby may wait


PACK = "pack"
WAYS_TO_SPREAD = (PACK, *SPREADS)


def is_native(document: Mapping[str, Any]) -> bool:
    """Whether a stored document is that of a service which Kubernetes' autoscaler scales."""
    return document.get("scaling") == NATIVE


def check(values: Mapping[str, Any], faults: Faults) -> None:
    """Note what Kubernetes' autoscaler, and a Deployment, cannot do for a service."""
    if values.get("scaling") != NATIVE:
        return
    _needs_objective(values, faults)
    replicas, asked = values["replicas"], values["resources"]
    if replicas is not BAD and replicas["min"] == 0:
        what = "replicas.min is 0, but scaling is native, and Kubernetes' autoscaler keeps at least one replica."
        faults.add("replicas.min", f"{what} Set min to 1, or remove scaling.")
    if values["standby"] not in (None, BAD, 0):
        what = f"standby is {values['standby']}, but scaling is native, and a Deployment has no replicas on standby."
        faults.add("standby", f"{what} Remove standby, or remove scaling.")
    if values["rollout"] is not None:
        what = "rollout is given, but scaling is native: its Deployment replaces one replica after the other."
        faults.add("rollout", f"{what} Remove rollout, or remove scaling.")
    if asked is not BAD and asked["gpu_share"] is not None:
        what = "resources.gpu_share is given, but scaling is native, and a Deployment's pods have whole GPUs."
        faults.add("resources.gpu_share", f"{what} Ask for resources: {{gpus: 1}}, or remove scaling.")


def _needs_objective(values: Mapping[str, Any], faults: Faults) -> None:
    if values["objective"] is None:
        what = "scaling is native, but there is no objective from which a target for the autoscaler follows."
        faults.add("scaling", f"{what} Add objective, such as {{p95_latency: 500ms}}, or remove scaling.")
