"""What was asked for of late: the shapes of the last workloads submitted, counted seldom."""

from dataclasses import replace

from controlplane.jobspec.podsets import roles_of
from controlplane.models import Workload, bulk
from gpushare.gpu import Share
from scheduler.model.demand import Demand
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ResourceRequest
from scheduler.placement.forecast import LAST, Asked, demand_of_these

_COLUMNS = ("seq", "share_guarantee", "gpus", "gpu_memory", "cpu_milli", "memory", "gpu_models", "workers", "roles")


def asked_of_late(snapshot: Snapshot) -> tuple[Demand, int]:
    """The demand of the last workloads on the cluster as it is in a snapshot, and how many workloads there were ever.

    The demand is empty until enough is known.
    """
    found: list[Asked] = []
    last = 0
    for seq, guarantee, gpus, gpu_memory, cpu_milli, memory, models, workers, roles in bulk.select(
        Workload, _COLUMNS, order=("-seq",), limit=LAST
    ):
        share = Share(guarantee, guarantee, gpu_memory) if guarantee else None
        ask = ResourceRequest(gpus, share, 0 if share else gpu_memory, cpu_milli, memory, tuple(models))
        found.append(Asked(ask, workers, roles_of(roles) if roles else ()))
        last = max(last, seq)
    return demand_of_these(found, snapshot), last


def with_demand(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the demand as it would be counted now."""
    return replace(snapshot, demand=asked_of_late(snapshot)[0])
