"""The variables of a share, each from the pod's own annotation, for the program and for whatever enforces it."""

from typing import Any

from controlplane.cluster.kubernetes import names

DEVICE = "NVIDIA_VISIBLE_DEVICES"  # which devices the container runtime shows; not set: what a device plugin says
HIDDEN = {"name": DEVICE, "value": "void"}  # none
# Milli-GPU that it always has, and that it may use at most; MiB.
SAID = {
    "WEFT_GPU_GUARANTEE_MILLI": names.MILLI,
    "WEFT_GPU_LIMIT_MILLI": names.LIMIT,
    "WEFT_GPU_MEMORY_MIB": names.GPU_MEMORY,
}
SHARE_VARIABLES = {DEVICE: names.DEVICE, **SAID}
# On demand a container sees several GPUs. Its processes begin on the first one named here, which is the one of its
# guarantee: without it each would begin on the node's first GPU.
ON_DEMAND_VARIABLES = {"CUDA_VISIBLE_DEVICES": names.DEVICE}


def noted(name: str, annotation: str) -> dict[str, Any]:
    """A variable that has what an annotation of its pod says."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}
