"""Clusters of several types of GPU, as `autoscaler.planner` is told of them."""

from collections.abc import Mapping
from typing import Any


def nodes_of(cluster: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """The nodes. cluster: how many there are and the GPUs of each, by type."""
    return [
        {"id": (gpu_type, index), "gpu_type": gpu_type, "gpus": gpus}
        for gpu_type, (count, gpus) in cluster.items()
        for index in range(count)
    ]
