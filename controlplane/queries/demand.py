"""What was asked for of late: the shapes of the last workloads submitted, counted seldom."""

from collections import Counter
from dataclasses import replace

from controlplane.models import Workload, bulk
from controlplane.rolevalues import roles_of
from gpushare.gpu import Share
from scheduler.demand import Demand, as_counted
from scheduler.placement.forecast import forecast
from scheduler.snapshot import Snapshot
from scheduler.workload import Ask

LAST = 2000  # workloads counted
ENOUGH = 50  # with GPUs: fewer tell nothing of what is to come
GROWTH = 0.3  # as many more of those counted before it is counted again
_COLUMNS = ("seq", "share_guarantee", "gpus", "gpu_memory", "cpu_milli", "memory", "gpu_models", "workers", "roles")


def asked_of_late(snapshot: Snapshot) -> tuple[Demand, int]:
    """The demand of the last workloads on the cluster as it is in a snapshot, and how many workloads there were ever.

    The demand is empty until enough is known.
    """
    counts: Counter[Ask] = Counter()
    with_gpus, last = 0, 0
    for seq, guarantee, gpus, gpu_memory, cpu_milli, memory, models, workers, roles in bulk.select(
        Workload, _COLUMNS, 'ORDER BY "seq" DESC LIMIT %s', (LAST,)
    ):
        share = Share(guarantee, guarantee, gpu_memory) if guarantee else None
        ask = Ask(gpus, share, 0 if share else gpu_memory, cpu_milli, memory, tuple(models))
        counts[ask] += max(1, workers)
        for role in roles_of(roles) if roles else ():
            counts[as_counted(role.ask)] += role.count
        with_gpus += ask.milli > 0
        last = max(last, seq)
    return forecast(counts, snapshot) if with_gpus >= ENOUGH else Demand(), last


def next_count(last: int) -> int:
    """The number of the submission with which demand is worth counting again."""
    return last + max(ENOUGH, round(GROWTH * min(last, LAST)))


def with_demand(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the demand as it would be counted now."""
    return replace(snapshot, demand=asked_of_late(snapshot)[0])
