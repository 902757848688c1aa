"""What the row of a workload keeps of its job file."""

from typing import Any

from controlplane.jobspec.podsets import labels_text
from controlplane.jobspec.spec import Spec


def of_times(spec: Spec) -> dict[str, Any]:
    """How long it is expected to run and may run, in seconds."""
    return {"expected_seconds": spec.expected_duration, "max_seconds": spec.max_duration}


def of_ask(spec: Spec) -> dict[str, Any]:
    """What each worker asks for, and how close together they are."""
    ask, share = spec.resources, spec.resources.share
    return {
        "gpus": ask.gpus,
        "share_guarantee": share.guarantee if share else 0,
        "share_limit": share.limit if share else 0,
        "share_labels": labels_text(ask.labels),
        "gpu_memory": share.most_memory if share else ask.gpu_memory,
        "gpu_models": list(ask.models),
        "cpu_milli": ask.cpu_milli,
        "memory": ask.memory,
        "topology_require": spec.topology.require,
        "topology_prefer": spec.topology.prefer,
    }
