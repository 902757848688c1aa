"""Small clusters and demands for the tests of placement."""

from collections import Counter

import numpy as np

from gpushare.gpu import Share
from scheduler.model.demand import Demand, demand_of
from scheduler.model.snapshot import Inventory, Node
from scheduler.model.workload import ResourceRequest
from scheduler.placement import loops
from scheduler.placement.fleet import Kind, empty_fleet, kinds_of, want_of
from scheduler.placement.rows import BITS, Fleet


def node(name: str, gpus: int, model: str = "a", cpu: int = 64, ram: int = 512_000, memory: int = 16_000) -> Node:
    """A node with so many cores and MiB."""
    return Node(name, model, model, gpus, memory, cpu * 1000, ram)


def share(milli: int, vram: int = 0, **ask: int) -> ResourceRequest:
    """A share of one GPU."""
    return ResourceRequest(share=Share(milli, milli, vram), **ask)


def cluster(*nodes: Node) -> tuple[Fleet, tuple[Kind, ...]]:
    """The nodes, empty."""
    inventory = Inventory(nodes)
    kinds = kinds_of(inventory)
    fleet = empty_fleet(inventory, kinds)
    fleet.host[:] = inventory.node_capacity.T
    for row, one in zip(fleet.gpu, nodes, strict=True):
        row[: one.gpus] = (1000 << BITS) + one.gpu_memory
    return fleet, kinds


def demand(fleet: Fleet, kinds: tuple[Kind, ...], counts: dict[ResourceRequest, int]) -> Demand:
    """These counts, on the cluster as it is."""
    slots = {ask: int(loops.total_slots(fleet, *want_of(ask, kinds))) for ask in counts}
    return demand_of(Counter(counts), slots)


def everywhere(fleet: Fleet) -> np.ndarray:
    """All nodes allowed."""
    return np.ones(len(fleet.kind), dtype=np.bool_)


def empty(fleet: Fleet) -> tuple[np.ndarray, np.ndarray]:
    """Devices of each node of an empty cluster, shape [N], and its cores and memory, shape [N, 2]."""
    return (fleet.gpu > 0).sum(axis=1), fleet.host.copy()
