"""Variables of a container that are the platform's, not a job file's."""

import re

# Variables that decide which GPUs a container sees or what runs inside it (docs/kubernetes.md#a-pod).
RESERVED_ENV = re.compile(
    r"NVIDIA_.*|CUDA_VISIBLE_DEVICES|CUDA_MPS_.*|CUDA_DEVICE_.*|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES"
    r"|HIP_VISIBLE_DEVICES|LD_(PRELOAD|AUDIT|LIBRARY_PATH)|KUBERNETES_.*|WEFT_.*",
    re.IGNORECASE,
)
# Of those, where the counts of `weft.report` go: a training's own, if it says so (docs/reporter.md).
REPORT_ENV = ("WEFT_REPORT_PORT", "WEFT_REPORT_ADDRESS", "WEFT_REPORT_FILE")


def is_reserved(variable: str) -> bool:
    """Whether a variable of a container is the platform's alone."""
    return RESERVED_ENV.fullmatch(variable) is not None and variable not in REPORT_ENV
