"""What must be refused of shares and of the pods that hold their devices, one thing at a time; see `forbidden`."""

import copy
from typing import Any

from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.placeholders import manifest
from controlplane.manifests.forbidden_pods import Change

_MAIN, _FIRST = "spec.containers.0", "spec.initContainers.0"
_TWO = {"limits": {names.GPU_RESOURCE: "2"}, "requests": {names.GPU_RESOURCE: "2"}}
_MORE = {key: {names.GPU_RESOURCE: "1", "cpu": "1"} for key in ("limits", "requests")}

# Of a share's variables: (name, what it is instead).
SHARE_VARIABLES_WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("WEFT_GPU_GUARANTEE_MILLI", {"value": "1000"}),
    ("WEFT_GPU_LIMIT_MILLI", {"value": "1000"}),
    ("WEFT_GPU_MEMORY_MIB", {"value": "81920"}),
    *(
        (name, {"valueFrom": {"fieldRef": {"fieldPath": path}}})
        for name, path in (
            ("WEFT_GPU_LIMIT_MILLI", "metadata.labels['mine']"),
            ("WEFT_GPU_LIMIT_MILLI", f"metadata.annotations['{names.GPU_MEMORY}']"),
            ("WEFT_GPU_MEMORY_MIB", "metadata.name"),
            ("NVIDIA_VISIBLE_DEVICES", f"metadata.annotations['{names.GPUS}']"),
        )
    ),
)
SHARE_VARIABLES_MISSING = ("WEFT_GPU_GUARANTEE_MILLI", "WEFT_GPU_LIMIT_MILLI", "WEFT_GPU_MEMORY_MIB")
SHARE_ANNOTATIONS_MISSING = (names.MILLI, names.LIMIT, names.GPU_MEMORY)

PLACEHOLDER_WRONG: tuple[Change, ...] = (
    ("metadata.name", "other"),
    ("metadata.labels", {}),
    ("metadata.labels", {names.PLACEHOLDER: "true", names.WORKLOAD: "x"}),
    ("metadata.annotations", {}),
    ("metadata.annotations", {names.GPUS: "0", "example.com/x": "1"}),
    ("metadata.annotations", {names.GPUS: "7"}),
    ("metadata.finalizers", ["example.com/stay"]),
    ("spec.nodeName", None),
    ("spec.schedulerName", "default-scheduler"),
    ("spec.automountServiceAccountToken", True),
    ("spec.serviceAccountName", "builder"),
    ("spec.dnsPolicy", "Default"),
    ("spec.priorityClassName", "high"),
    ("spec.volumes", [{"name": "x", "emptyDir": {}}]),
    ("spec.initContainers", None),
    *((f"{part}.image", "registry.example/evil:1") for part in (_MAIN, _FIRST)),
    *((f"{part}.command", ["/bin/sh", "-c", "true"]) for part in (_MAIN, _FIRST)),
    *((f"{part}.resources", amounts) for part in (_MAIN, _FIRST) for amounts in (_TWO, _MORE)),
    (f"{_MAIN}.resources", {}),
    (f"{_MAIN}.env", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
    (f"{_MAIN}.args", ["x"]),
    (f"{_MAIN}.ports", [{"containerPort": 80}]),
)


def placeholder(node: str, gpu: int, image: str) -> dict[str, Any]:
    """One as the scheduler makes it."""
    return copy.deepcopy(manifest(node, gpu, image, "weft-nlp/none"))
