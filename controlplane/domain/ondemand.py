"""Which rows are of notebooks on demand, and where the memory of one is, as answers say it."""

from typing import Any

from controlplane.cluster.port import IN_HOST_MEMORY
from scheduler.model.workload import Kind


def is_on_demand(kind: str, offloads: object) -> bool:
    """Whether a workload's row is of a notebook on demand: of a service `offloads` is about its weights."""
    return bool(offloads) and kind == Kind.NOTEBOOK


def on_demand(on_gpu: int | None) -> dict[str, Any]:
    """on_gpu: index of a GPU of its node, IN_HOST_MEMORY, or None where it is not known, or not on demand."""
    is_in_host = on_gpu == IN_HOST_MEMORY
    return {"on_gpu": None if is_in_host else on_gpu, "in_host_memory": is_in_host}
