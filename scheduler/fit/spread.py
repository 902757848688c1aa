"""Replicas of one service spread over GPUs, nodes, racks or zones, as far as there is room: else one takes all of them.

One replica after the other goes where the fewest of its own are, and there where any replica would go. It is never
refused for this. Source: topologySpreadConstraints of Kubernetes with ScheduleAnyway, for GPUs as well.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpushare.packing import take_share
from scheduler.fit.comparison import Option, Places, best_places
from scheduler.fit.gang import Goal
from scheduler.fit.locality import domain_of_node
from scheduler.model.snapshot import COMPUTE, MEMORY, Bools, Ints, Inventory
from scheduler.model.workload import GPU, Level, Workload
from scheduler.placement.chooser import Chooser
from scheduler.state.free import Free, free_of


def spread_places(
    inventory: Inventory, workload: Workload, goal: Goal, options: Sequence[Option], free: Free, chooser: Chooser | None
) -> Places | None:
    """As `best_places`, for a service that says over what its replicas are to be spread."""
    found: Places = ()
    left = {_pool(option): option.goal.most for option in options}
    while len(found) < goal.most:
        seen = replace(workload, placement=(*workload.placement, *found))
        now = [Option(option.flavor, Goal(1, 1)) for option in options if left[_pool(option)] > 0]
        crowd = _crowd(inventory, seen)
        offers = (
            best_places(inventory, seen, Goal(1, 1), now, _only(inventory, free, crowd <= most), chooser)
            for most in np.unique(crowd).tolist()
        )
        one = next((places for places in offers if places), None) if now else None
        if one is None:
            break
        found += one
        left[_pool_at(inventory, options, one[0].node)] -= 1
        free = _without(inventory, free, seen, one)
    return found if len(found) >= goal.least else None


def _crowd(inventory: Inventory, workload: Workload) -> Ints:
    """How many of its replicas that stay share the GPU, node, rack or zone of each device. Shape [G]."""
    own = np.zeros(len(inventory.node_of), dtype=np.int64)
    there = [
        (inventory.index[a.node], a.gpus) for a in workload.placement if not a.leaving and a.node in inventory.index
    ]
    for node, gpus in there:
        own[[int(inventory.offset[node]) + gpu for gpu in gpus if gpu < inventory.nodes[node].gpus]] += 1
    if workload.spread == GPU:
        return own
    domain = domain_of_node(inventory, Level[workload.spread.upper()])
    by_domain = np.bincount(domain[[node for node, _ in there]], minlength=int(domain.max(initial=0)) + 1)
    crowd: Ints = by_domain[domain][inventory.node_of]
    return crowd


def _only(inventory: Inventory, free: Free, devices: Bools) -> Free:
    """What is free on these devices, and on nodes that have any of them. devices: shape [G]."""
    if devices.all():
        return free
    gpu = np.where(devices, free.gpu, 0)
    has = np.bincount(inventory.node_of, devices, len(inventory.nodes)) > 0
    return free_of(inventory, gpu, np.where(has, free.node, 0))


def _without(inventory: Inventory, free: Free, workload: Workload, places: Places) -> Free:
    """What is free once these replicas have their places."""
    gpu, node = free.gpu.copy(), free.node.copy()
    for place in places:
        at = inventory.index[place.node]
        node[:, at] -= workload.on_node(place)
        milli, memory = workload.on_device(place)
        for device in (int(inventory.offset[at]) + index for index in place.gpus):
            if workload.ask.share:
                take_share(gpu, device, workload.ask.share)
            else:
                gpu[COMPUTE, device] -= milli
                gpu[MEMORY, device] -= memory
    return free_of(inventory, gpu, node)


def _pool(option: Option) -> str:
    return "" if option.flavor is None else option.flavor.pool


def _pool_at(inventory: Inventory, options: Sequence[Option], node: str) -> str:
    """Under which of the options' pools a node counts."""
    pool = inventory.nodes[inventory.index[node]].pool
    return pool if any(_pool(option) == pool for option in options) else ""
