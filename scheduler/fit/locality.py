"""The topology tree: how many workers fit into each NVLink domain, node, rack, zone, and which one to take."""

import numpy as np

from gpushare.packing import Bools
from scheduler.fit.capacity import gathered, per_link
from scheduler.model.snapshot import Ints, Inventory
from scheduler.model.workload import Level, ResourceRequest, Topology
from scheduler.state.free import Free, is_idle

# Below this many domains a key is exact: idle devices of a domain never reach it.
_STEP = 1 << 20


def levels(topology: Topology) -> list[Level]:
    """The levels to try, in order: from the preferred (else the tightest) one up to the required one."""
    loosest = Level.CLUSTER if topology.require is None else topology.require
    tightest = Level.NVLINK if topology.prefer is None else min(topology.prefer, loosest)
    return [level for level in Level if tightest <= level <= loosest]


def domain_of_node(inventory: Inventory, level: Level) -> Ints:
    """Number of the domain of each node at a level from NODE up. Shape [N]."""
    if level == Level.NODE:
        return np.arange(len(inventory.nodes), dtype=np.int64)
    if level == Level.RACK:
        return inventory.rack_of
    if level == Level.ZONE:
        return inventory.zone_of
    return np.zeros(len(inventory.nodes), dtype=np.int64)


def capacity(inventory: Inventory, ask: ResourceRequest, free: Free, nodes: Ints, level: Level) -> Ints:
    """How many workers each domain of a level takes; nodes is `fit.per_node`. Shape [domains]."""
    if level == Level.NVLINK:
        return per_link(inventory, ask, free, nodes)
    if level == Level.NODE:
        return nodes
    domains = domain_of_node(inventory, level)
    return gathered(ask, nodes, domains, int(domains.max(initial=-1)) + 1)


def tightest(
    inventory: Inventory, ask: ResourceRequest, free: Free, nodes: Ints, count: int, order: list[Level]
) -> tuple[Level, int] | None:
    """The first level with a domain that takes `count` workers, and that domain: the one with the least to spare.

    A worker without a GPU goes where the fewest GPUs are idle, so that it strands none.
    """
    for level in order:
        room = capacity(inventory, ask, free, nodes, level)
        fits = np.flatnonzero(room >= count)
        if fits.size:
            spare = _idle(inventory, free, level)[fits] * _STEP + np.minimum(room[fits], _STEP - 1)
            # Links are as like as can be: among equal ones that of the fullest node, so that whole nodes stay whole.
            around = free.idle * _STEP + np.minimum(nodes, _STEP - 1)
            around = around[inventory.node_of_link[fits]] if level == Level.NVLINK else fits
            return level, int(fits[np.lexsort((around, spare))[0]])
    return None


def nodes_of(inventory: Inventory, level: Level, domain: int) -> Bools:
    """The nodes of one domain. Shape [N]."""
    if level == Level.NVLINK:
        mask = np.zeros(len(inventory.nodes), dtype=np.bool_)
        mask[inventory.node_of[inventory.link_of == domain]] = True
        return mask
    return np.equal(domain_of_node(inventory, level), domain)


def _idle(inventory: Inventory, free: Free, level: Level) -> Ints:
    """Whole idle devices of each domain. Shape [domains]."""
    if level == Level.NVLINK:
        return np.bincount(inventory.link_of, is_idle(free.gpu)).astype(np.int64)
    return np.bincount(domain_of_node(inventory, level), free.idle).astype(np.int64)
