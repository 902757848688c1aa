"""From what was asked for of late to a demand: the frequent shapes, and how much of each the cluster takes now."""

from collections.abc import Mapping

import numpy as np

from scheduler.demand import Demand, demand_of, sort_key
from scheduler.snapshot import COMPUTE, MEMORY, Bools, Snapshot
from scheduler.workload import Ask

MOST_SHAPES = 200  # the most frequent; what is rarer hardly changes a forecast


def forecast(counts: Mapping[Ask, int], snapshot: Snapshot) -> Demand:
    """The demand of these counts of workers, on the cluster as it is now."""
    frequent = sorted(counts, key=lambda ask: (-counts[ask], sort_key(ask)))[:MOST_SHAPES]
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


def _nodes(snapshot: Snapshot, ask: Ask) -> Bools:
    """The nodes that may take a worker. Shape [N]."""
    inventory = snapshot.inventory
    if not ask.milli:
        return inventory.usable
    of_model = np.array([not ask.models or n.model in ask.models for n in inventory.nodes], dtype=np.bool_)
    return inventory.usable & of_model & (inventory.gpu_memory >= ask.least_memory)
