"""What was asked for of late: the shapes of the last workloads submitted, counted seldom."""

from dataclasses import replace

from controlplane.domain.ondemand import is_on_demand
from controlplane.jobspec.podsets import roles_of, share_of_row
from controlplane.models import Workload, bulk
from scheduler.model.demand import Demand
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ResourceRequest
from scheduler.placement.forecast import LAST, Asked, demand_of_these

_COLUMNS = (
    "seq", "share_guarantee", "gpus", "gpu_memory", "cpu_milli", "memory", "gpu_models", "workers", "roles", "kind",
    "offloads",
)  # fmt: skip


def asked_of_late(snapshot: Snapshot, cell: str | None = None) -> tuple[Demand, int]:
    """The demand of the last workloads on the cluster as it is in a snapshot, and how many workloads there were ever.

    The demand is empty until enough is known. cell: only of its workloads.
    """
    where = {} if cell is None else {"cell": cell}
    found: list[Asked] = []
    last = 0
    for seq, guarantee, gpus, gpu_memory, cpu_milli, memory, models, workers, roles, kind, offloads in bulk.select(
        Workload, _COLUMNS, where, order=("-seq",), limit=LAST
    ):
        share = share_of_row(guarantee, guarantee, gpu_memory, on_demand=is_on_demand(kind, offloads))
        ask = ResourceRequest(gpus, share, 0 if share else gpu_memory, cpu_milli, memory, tuple(models))
        found.append(Asked(ask, workers, roles_of(roles) if roles else ()))
        last = max(last, seq)
    return demand_of_these(found, snapshot), last


def with_demand(snapshot: Snapshot, cell: str | None = None) -> Snapshot:
    """The snapshot with the demand as it would be counted now."""
    return replace(snapshot, demand=asked_of_late(snapshot, cell)[0])
