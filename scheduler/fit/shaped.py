"""Places of a gang in a given shape: so many workers on each node, where a training moves to run faster.

As for any gang the closest nodes go first: one rack, one zone, anywhere; of equal ones those with the least to spare,
so that whole nodes stay whole. Exact for its workers: None means that no nodes have such room.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from gpushare.packing import Bools
from scheduler.fit.capacity import allowed_nodes, per_node
from scheduler.fit.gang import Goal, find_places
from scheduler.fit.locality import domain_of_node
from scheduler.fit.roles import alone, taken
from scheduler.model.snapshot import COMPUTE, MEMORY, Flavor, Ints, Inventory
from scheduler.model.workload import Assignment, Level, ResourceRequest, Topology, Workload
from scheduler.state.free import Free, free_of

Places = tuple[Assignment, ...]
ONE_NODE = Topology(require=Level.NODE)


def find_shaped(
    inventory: Inventory,
    workload: Workload,
    shape: Sequence[int],
    free: Free,
    flavor: Flavor | None,
    within: Bools,
) -> Places | None:
    """Places for so many workers on each of as many nodes, most first, and for all members of its roles; or None.

    within: where it may go, shape [N]. The members of roles go wherever they have room beside the workers.
    """
    nodes = _nodes(inventory, workload, shape, free, flavor, within)
    if nodes is None:
        return None
    found: list[Assignment] = []
    first = workload.role_members
    for node, count in zip(nodes, shape, strict=True):
        only = np.zeros(len(inventory.nodes), dtype=np.bool_)
        only[node] = True
        one = replace(alone(workload, workload.ask, count), topology=_on_one_node(workload))
        there = find_places(inventory, one, Goal(count, count), free, flavor, only)
        if there is None:
            return None
        found += [replace(worker, rank=first + len(found) + i) for i, worker in enumerate(there)]
    free, rank = taken(inventory, free, workload.ask, found), 0
    for role in workload.roles:
        one = alone(workload, role.ask, role.count)
        there = find_places(
            inventory, one, Goal(role.count, role.count), free, flavor if role.ask.milli else None, within
        )
        if there is None:
            return None
        found += [replace(member, rank=rank + member.rank) for member in there]
        free, rank = taken(inventory, free, role.ask, there), rank + role.count
    return tuple(sorted(found, key=lambda worker: worker.rank))


def with_own(inventory: Inventory, free: Free, workload: Workload) -> Free:
    """What is free for a workload that leaves its own places first: these as well."""
    gpu, node = free.gpu.copy(), free.node.copy()
    for worker in workload.placement:
        at = inventory.index.get(worker.node)
        if at is None:
            continue
        ask: ResourceRequest = workload.ask_of(worker.rank)
        node[:, at] = np.minimum(node[:, at] + (ask.cpu_milli, ask.memory), inventory.node_capacity[:, at])
        devices = [int(inventory.offset[at]) + i for i in worker.gpus if i < inventory.nodes[at].gpus]
        milli, memory = workload.on_device(worker)
        for kind, more in ((COMPUTE, milli), (MEMORY, memory)):
            gpu[kind, devices] = np.minimum(gpu[kind, devices] + more, inventory.gpu_capacity[kind, devices])
    return free_of(inventory, gpu, node)


def all_but(inventory: Inventory, names: Collection[str]) -> Bools:
    """All nodes but these. Shape [N]."""
    mask = np.ones(len(inventory.nodes), dtype=np.bool_)
    mask[[inventory.index[name] for name in names if name in inventory.index]] = False
    return mask


def _on_one_node(workload: Workload) -> Topology:
    """One NVLink domain where that is required of it, else one node."""
    return workload.topology if workload.topology.require == Level.NVLINK else ONE_NODE


def _nodes(
    inventory: Inventory, workload: Workload, shape: Sequence[int], free: Free, flavor: Flavor | None, within: Bools
) -> list[int] | None:
    """A node for each part of the shape, in its order, all as near to each other as can be."""
    if not shape or min(shape) < 1 or list(shape) != sorted(shape, reverse=True):
        return None
    require = Level.CLUSTER if workload.topology.require is None else workload.topology.require
    if len(shape) > 1 and require in (Level.NVLINK, Level.NODE):
        return None
    allowed = allowed_nodes(inventory, workload.ask, flavor) & within
    rooms = per_node(inventory, workload.ask, free, allowed)
    for level in (Level.RACK, Level.ZONE, Level.CLUSTER):
        if level > max(require, Level.RACK):
            break
        domains = domain_of_node(inventory, level)
        found = (_within(np.where(domains == one, rooms, 0), free.idle, shape) for one in np.unique(domains).tolist())
        some = [nodes for nodes in found if nodes is not None]
        if some:
            return min(some, key=lambda nodes: (int(free.idle[nodes].sum()), nodes))
    return None


def _within(rooms: Ints, idle: Ints, shape: Sequence[int]) -> list[int] | None:
    """For each part the node that it leaves least on. As the largest goes first, none takes what another needs."""
    left = rooms.copy()
    nodes: list[int] = []
    for count in shape:
        fits = np.flatnonzero(left >= count)
        if not fits.size:
            return None
        node = int(fits[np.lexsort((fits, left[fits], idle[fits]))[0]])
        nodes.append(node)
        left[node] = 0
    return nodes
