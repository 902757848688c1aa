"""From what was asked for of late to a demand: the frequent shapes, and how much of each the cluster takes now."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from scheduler.model.demand import NO_DEMAND, Demand, as_counted, demand_of, sort_key
from scheduler.model.snapshot import COMPUTE, MEMORY, Bools, Snapshot
from scheduler.model.workload import ResourceRequest, Role

LAST = 2000  # workloads counted
ENOUGH = 10  # with GPUs: fewer tell nothing of what is to come
GROWTH = 0.3  # as many more of those counted before it is counted again
MAX_SHAPES = 200  # the most frequent; what is rarer hardly changes a forecast


class Asked(NamedTuple):
    """What one workload asked for: its workers, and the members of its roles."""

    ask: ResourceRequest
    workers: int = 1
    roles: tuple[Role, ...] = ()


def demand_of_these(last: Iterable[Asked], snapshot: Snapshot) -> Demand:
    """The demand of these workloads, the last `LAST` of all or fewer; empty until `ENOUGH` of them have GPUs."""
    counts: Counter[ResourceRequest] = Counter()
    with_gpus = 0
    for ask, workers, roles in last:
        counts[as_counted(ask)] += max(1, workers)
        for role in roles:
            counts[as_counted(role.ask)] += role.count
        with_gpus += ask.milli > 0
    return forecast(counts, snapshot) if with_gpus >= ENOUGH else NO_DEMAND


def next_count(last: int) -> int:
    """The number of the submission with which demand is worth counting again."""
    return last + max(ENOUGH, round(GROWTH * min(last, LAST)))


def forecast(counts: Mapping[ResourceRequest, int], snapshot: Snapshot) -> Demand:
    """The demand of these counts of workers, on the cluster as it is now."""
    frequent = sorted(counts, key=lambda ask: (-counts[ask], sort_key(ask)))[:MAX_SHAPES]
    gpu = snapshot.inventory.gpu_capacity - snapshot.columns.gpu.max(axis=0)
    node = snapshot.inventory.node_capacity - snapshot.columns.node.max(axis=0)
    slots = {}
    for ask in frequent:
        nodes = _nodes(snapshot, ask) & (node[COMPUTE] >= ask.cpu_milli) & (node[MEMORY] >= ask.memory)
        if ask.milli:
            milli, memory = ask.on_device
            free = (gpu[COMPUTE] >= milli) & (gpu[MEMORY] >= memory)
            devices = np.bincount(snapshot.inventory.node_of, free, len(nodes)).astype(np.int64)
            slots[ask] = int((devices[nodes] // max(1, ask.gpus)).sum())
        else:
            slots[ask] = int(nodes.sum())
    return demand_of({ask: counts[ask] for ask in frequent}, slots)


def _nodes(snapshot: Snapshot, ask: ResourceRequest) -> Bools:
    """The nodes that may take a worker. Shape [N]."""
    inventory = snapshot.inventory
    if not ask.milli:
        return inventory.usable
    of_model = np.array([not ask.models or n.model in ask.models for n in inventory.nodes], dtype=np.bool_)
    given = inventory.gives(ask.share, ask.demands) if ask.share else True
    return inventory.usable & of_model & given & (inventory.gpu_memory >= ask.min_memory)
