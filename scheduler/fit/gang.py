"""Places for the workers of one workload on free capacity: all that must start, or none.

A gang takes the lowest topology level that holds it and, there, the fewest nodes. Replicas of a
service are independent: each takes the node that it leaves fullest.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from gpushare.gpu import WHOLE, Share
from gpushare.packing import Bools, best_device, take_share, take_whole, worst_device
from scheduler.fit.capacity import allowed_nodes, in_all, per_link, per_node
from scheduler.fit.locality import capacity, levels, nodes_of, tightest
from scheduler.fit.roles import find_all
from scheduler.model.snapshot import COMPUTE, Flavor, Ints, Inventory
from scheduler.model.workload import ACTIVE, Assignment, Kind, Level, ResourceRequest, Topology, Workload
from scheduler.state.free import Free
from scheduler.state.passes import MANY


class Goal(NamedTuple):
    """How many workers to place: at least, and at most."""

    least: int
    most: int


def find_places(
    inventory: Inventory,
    workload: Workload,
    goal: Goal,
    free: Free,
    flavor: Flavor | None,
    within: Bools | None = None,
) -> tuple[Assignment, ...] | None:
    """Places for goal.least to goal.most more workers, as many as fit, or None. Changes nothing.

    within restricts the nodes further; shape [N]. Which flavor, and where a scorer chooses: `scheduler.fit.comparison`.
    Exact for one role: None means that no placement of goal.least exists. Role members that have no place yet get
    theirs as well (see `scheduler.fit.roles`).
    """
    if workload.roles and not workload.placement:
        return find_all(_of_one_role, inventory, workload, goal.least, goal.most, free, flavor, within)
    ask = workload.ask
    allowed = allowed_nodes(inventory, ask, flavor)
    if within is not None:
        allowed = allowed & within
    if ask.share and (workload.kind is Kind.INFERENCE or goal.most == 1):
        return _loose_shares(inventory, workload, ask.share, goal, free, allowed)
    split = (_independent if workload.kind is Kind.INFERENCE else _together)(inventory, workload, goal, free, allowed)
    if split is None:
        return None
    nodes, link = split
    count = sum(take for _, take in nodes)
    if ask.share:
        spots = _share_spots(inventory, ask.share, free, nodes, count, link)
    else:
        needs_link = workload.topology.require == Level.NVLINK
        spots = [s for node, take in nodes for s in _whole_spots(inventory, ask, free, node, take, link, needs_link)]
    return ranked(inventory, workload, spots)


def _of_one_role(
    inventory: Inventory, workload: Workload, count: int, free: Free, flavor: Flavor | None, within: Bools
) -> tuple[Assignment, ...] | None:
    return find_places(inventory, workload, Goal(count, count), free, flavor, within)


def has_places(
    inventory: Inventory,
    workload: Workload,
    goal: Goal,
    free: Free,
    flavor: Flavor | None,
    within: Bools | None = None,
) -> bool:
    """Whether `find_places` has an answer: without choosing the places, it is enough to count."""
    if workload.roles and not workload.placement:
        return find_places(inventory, workload, goal, free, flavor, within) is not None
    ask = workload.ask
    allowed = allowed_nodes(inventory, ask, flavor)
    if within is not None:
        allowed = allowed & within
    if ask.share and (workload.kind is Kind.INFERENCE or goal.most == 1):
        return min(goal.most, in_all(ask, per_node(inventory, ask, free, allowed))) >= goal.least
    count = (_count_of_replicas if workload.kind is Kind.INFERENCE else _count_of_gang)(
        inventory, workload, goal, free, per_node(inventory, ask, free, allowed)
    )
    return count >= goal.least


def _together(
    inventory: Inventory, workload: Workload, goal: Goal, free: Free, allowed: Bools
) -> tuple[list[tuple[int, int]], int | None] | None:
    """Nodes and how many workers of a gang each takes, and the one NVLink domain if it is within one."""
    ask, topology = workload.ask, workload.topology
    nodes = per_node(inventory, ask, free, allowed)
    order = levels(topology)
    count = _count_of_gang(inventory, workload, goal, free, nodes)
    if count < goal.least:
        return None
    if topology == Topology() and count * max(ask.gpus, 1) == 1:
        order = [Level.NODE]  # one worker on one device: nothing to keep together
    if not ask.milli and topology == Topology():
        return _fill(nodes, free.idle, count), None
    found = tightest(inventory, ask, free, nodes, count, order)
    if found is None:
        return None
    level, domain = found
    inside = np.where(nodes_of(inventory, level, domain), nodes, 0)
    return _fewest(inside, free.idle, count), domain if level == Level.NVLINK else None


def _count_of_gang(inventory: Inventory, workload: Workload, goal: Goal, free: Free, nodes: Ints) -> int:
    """How many workers of a gang one domain of the loosest level takes; nodes is `per_node`."""
    loosest = levels(workload.topology)[-1]
    return min(goal.most, int(capacity(inventory, workload.ask, free, nodes, loosest).max(initial=0)))


def _independent(
    inventory: Inventory, workload: Workload, goal: Goal, free: Free, allowed: Bools
) -> tuple[list[tuple[int, int]], int | None] | None:
    nodes = _linked(inventory, workload, free, per_node(inventory, workload.ask, free, allowed))
    count = min(goal.most, int(np.minimum(nodes, MANY).sum()))
    return (_fill(nodes, free.idle, count), None) if count >= goal.least else None


def _count_of_replicas(inventory: Inventory, workload: Workload, goal: Goal, free: Free, nodes: Ints) -> int:
    """How many replicas there is room for; nodes is `per_node`."""
    return min(goal.most, int(np.minimum(_linked(inventory, workload, free, nodes), MANY).sum()))


def _linked(inventory: Inventory, workload: Workload, free: Free, nodes: Ints) -> Ints:
    """`per_node` of a service, where one that must be within an NVLink domain finds such ones only."""
    ask = workload.ask
    if workload.topology.require == Level.NVLINK and ask.gpus > 1:
        links = per_link(inventory, ask, free, nodes)
        return np.minimum(nodes, np.bincount(inventory.node_of_link, links, len(nodes)).astype(np.int64))
    return nodes


def _fill(room: Ints, idle: Ints, count: int) -> list[tuple[int, int]]:
    """Fill nodes up, those with the fewest idle GPUs first, then those with the least room."""
    fits = np.flatnonzero(room)
    out: list[tuple[int, int]] = []
    for node in fits[np.lexsort((room[fits], idle[fits]))].tolist():
        take = min(count, int(room[node]))
        out.append((node, take))
        count -= take
        if not count:
            break
    return out


def _fewest(room: Ints, idle: Ints, count: int) -> list[tuple[int, int]]:
    """The fewest nodes: the roomiest first, and for the rest the tightest node that takes all of it."""
    fits = np.flatnonzero(room)
    order = fits[np.lexsort((idle[fits], -room[fits]))].tolist()
    out: list[tuple[int, int]] = []
    while count:
        enough = [node for node in order if room[node] >= count]
        node = min(enough, key=lambda n: (int(idle[n]), int(room[n]), n)) if enough else order[0]
        take = min(count, int(room[node]))
        order.remove(node)
        out.append((node, take))
        count -= take
    return sorted(out)


def ranked(
    inventory: Inventory, workload: Workload, spots: list[tuple[int, tuple[int, ...]]]
) -> tuple[Assignment, ...]:
    """Number them from the first rank that no worker of this attempt ever had: a pod's name is used once."""
    ended = workload.next_rank if workload.phase in ACTIVE else 0
    first = max([ended, *(a.rank + 1 for a in workload.placement)])
    return tuple(
        Assignment(rank, inventory.nodes[node].name, devices) for rank, (node, devices) in enumerate(spots, first)
    )


def _loose_shares(
    inventory: Inventory, workload: Workload, share: Share, goal: Goal, free: Free, allowed: Bools
) -> tuple[Assignment, ...] | None:
    """Shares that need not be near: each on the device that fits best, or all on one, wherever it is."""
    nodes = per_node(inventory, workload.ask, free, allowed)
    count = min(goal.most, in_all(workload.ask, nodes))
    if count < goal.least:
        return None
    enough = nodes >= count if workload.ask.labels.affinity else nodes > 0
    room = [(int(node), int(nodes[node])) for node in np.flatnonzero(nodes) if enough[node]]
    return ranked(inventory, workload, _share_spots(inventory, share, free, room, count, None))


def _whole_spots(
    inventory: Inventory, ask: ResourceRequest, free: Free, node: int, take: int, link: int | None, needs_link: bool
) -> list[tuple[int, tuple[int, ...]]]:
    first, end = int(inventory.offset[node]), int(inventory.offset[node + 1])
    links = inventory.link_of[first:end].tolist()
    idle = np.flatnonzero(free.gpu[COMPUTE, first:end] == WHOLE).tolist()
    if link is not None:
        idle = [device for device in idle if links[device] == link]
    spots: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(take):
        pool = idle
        if needs_link and ask.gpus > 1:  # only domains that hold this worker whole
            sizes = Counter(links[device] for device in idle)
            pool = [device for device in idle if sizes[links[device]] >= ask.gpus]
        devices = take_whole(pool, [links[device] for device in pool], ask.gpus) if ask.gpus else ()
        spots.append((node, devices))
        idle = [device for device in idle if device not in devices]
    return spots


def _share_spots(
    inventory: Inventory, share: Share, free: Free, nodes: list[tuple[int, int]], count: int, link: int | None
) -> list[tuple[int, tuple[int, ...]]]:
    """A device for each of `count` shares, on the given nodes with the room they have; one for all with an affinity."""
    left = free.gpu.copy()
    room = np.zeros(len(inventory.nodes), dtype=np.int64)
    room[[node for node, _ in nodes]] = [take for _, take in nodes]
    spots: list[tuple[int, tuple[int, ...]]] = []
    device: int | None = None
    for _ in range(count):
        allowed = (room > 0)[inventory.node_of]
        if link is not None:
            allowed = allowed & (inventory.link_of == link)
        if not share.labels.affinity:
            device = best_device(left, share, allowed, free.idle[inventory.node_of])
        elif device is None:
            device = worst_device(left, share, allowed)
        if device is None:
            raise RuntimeError("per_node counted a share that no device takes")
        node = int(inventory.node_of[device])
        take_share(left, device, share)
        room[node] -= 1
        spots.append((node, (device - int(inventory.offset[node]),)))
    return spots
