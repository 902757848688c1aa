"""Places for a gang with several roles: all members that must start, or none.

The members that ask GPUs are placed first, the largest first, as few nodes can take them; those without GPUs go after
them, to the nodes with the fewest idle GPUs, so that they strand none. If cores or memory then lack, the other order
is tried once. Members of different size in nodes of different size are a packing problem for which no exact answer is
known to be quick; so, unlike for one role, a rare packing may be missed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.fit.capacity import allowed_nodes, per_link, per_node
from scheduler.fit.locality import domain_of_node, levels, nodes_of
from scheduler.model.snapshot import COMPUTE, MEMORY, Flavor, Ints, Inventory
from scheduler.model.workload import Assignment, Gang, Level, Phase, ResourceRequest, Topology, Workload
from scheduler.state.free import Free, free_of, is_idle

Places = tuple[Assignment, ...]
MAX_TRIES = 4  # domains of a level, the tightest first, before the next level; all of the loosest level


# Places for so many workers of one role, as `gang.find_places` finds them, or None; the last: nodes, shape [N].
Placer = Callable[[Inventory, Workload, int, Free, Flavor | None, Bools], Places | None]


@dataclass(frozen=True, slots=True)
class Member:
    """Those of one role: what each asks, how many, and the rank of the first."""

    ask: ResourceRequest
    count: int
    first: int


def members(workload: Workload, workers: int) -> list[Member]:
    """All roles of a gang with so many workers, the workers last, in the order of their ranks."""
    out: list[Member] = []
    for role in workload.roles:
        out.append(Member(role.ask, role.count, sum(member.count for member in out)))
    return [*out, Member(workload.ask, workers, workload.role_members)]


def alone(workload: Workload, ask: ResourceRequest, count: int) -> Workload:
    """The gang as if it had only these members and no wish how close they are."""
    return replace(
        workload,
        ask=ask,
        gang=Gang(count, count, count),
        roles=(),
        topology=Topology(),
        placement=(),
        phase=Phase.QUEUED,
        after=(),
    )


def find_all(
    place: Placer,
    inventory: Inventory,
    workload: Workload,
    least: int,
    most: int,
    free: Free,
    flavor: Flavor | None,
    within: Bools | None,
) -> Places | None:
    """Places for all role members and for `least` to `most` workers, or None. Changes nothing."""
    everywhere = np.ones(len(inventory.nodes), dtype=np.bool_) if within is None else within
    task = _Task(place, inventory, workload, free, flavor, everywhere)
    best = task.places(least)
    if best is None or most <= least:
        return best
    whole = task.places(most)
    if whole is not None:
        return whole
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        found = task.places(middle)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    return best


class _Task(NamedTuple):
    """One search: what is free, and where the gang may go."""

    place: Placer
    inventory: Inventory
    workload: Workload
    free: Free
    flavor: Flavor | None
    within: Bools  # [N]

    def places(self, workers: int) -> Places | None:
        """Places for the role members and so many workers, at the tightest level that holds them."""
        all_members = members(self.workload, workers)
        with_gpus = sorted((m for m in all_members if m.ask.milli), key=lambda m: (-m.ask.milli, m.first))
        without = [m for m in all_members if not m.ask.milli]
        orders = [[*with_gpus, *without], [*without, *with_gpus]] if with_gpus and without else [all_members]
        # A member that may be anywhere need not be near: those without GPUs go where they strand none.
        near = all_members if self.workload.topology != Topology() else with_gpus
        for level in levels(self.workload.topology) if near else [Level.CLUSTER]:
            for nodes, seen in self._domains(level, near):
                for order in orders:
                    found = self._take(order, near, nodes, seen)
                    if found is not None:
                        return found
        return None

    def _take(self, order: Sequence[Member], near: Sequence[Member], nodes: Bools, devices: Bools) -> Places | None:
        """One member after the other; those near on these nodes and devices. nodes: [N], devices: [G]."""
        free, out = self.free, list[Assignment]()
        for member in order:
            is_near = member in near
            seen = _only(self.inventory, free, devices) if is_near and member.ask.milli else free
            where = nodes if is_near else self.within
            one = alone(self.workload, member.ask, member.count)
            flavor = self.flavor if member.ask.milli else None
            found = self.place(self.inventory, one, member.count, seen, flavor, where)
            if found is None:
                return None
            free = taken(self.inventory, free, member.ask, found)
            out += [replace(worker, rank=member.first + worker.rank) for worker in found]
        return tuple(sorted(out, key=lambda worker: worker.rank))

    def _domains(self, level: Level, near: Sequence[Member]) -> Iterator[tuple[Bools, Bools]]:
        """Nodes [N] and devices [G] of each domain that could hold those near, the one with the least idle first."""
        inventory = self.inventory
        if level is Level.CLUSTER:
            yield self.within, np.ones(len(inventory.node_of), dtype=np.bool_)
            return
        fits, idle = self._could_hold(level, near)
        found = np.flatnonzero(fits)
        around = self.free.idle[inventory.node_of_link[found]] if level is Level.NVLINK else found
        found = found[np.lexsort((found, around, idle[found]))]
        is_last = level is levels(self.workload.topology)[-1]
        for domain in found[: None if is_last else MAX_TRIES].tolist():
            nodes = nodes_of(inventory, level, domain) & self.within
            devices = inventory.link_of == domain if level is Level.NVLINK else nodes[inventory.node_of]
            yield nodes, devices

    def _could_hold(self, level: Level, near: Sequence[Member]) -> tuple[Bools, Ints]:
        """Which domains have room for each role by itself, and enough in all; and the idle devices of each."""
        inventory, free = self.inventory, self.free
        is_link = level is Level.NVLINK
        number = domain_of_node(inventory, Level.NODE if is_link else level)
        count = len(inventory.node_of_link) if is_link else int(number.max(initial=-1)) + 1
        of_device = inventory.link_of if is_link else number[inventory.node_of]
        fits = np.ones(count, dtype=np.bool_)
        reach = np.zeros(len(inventory.nodes), dtype=np.bool_)  # nodes that any of them may use
        for member in near:
            allowed = self.within & allowed_nodes(inventory, member.ask, self.flavor if member.ask.milli else None)
            nodes = per_node(inventory, member.ask, free, allowed)
            if is_link:
                room = (
                    per_link(inventory, member.ask, free, nodes) if member.ask.milli else nodes[inventory.node_of_link]
                )
            else:
                room = np.bincount(number, np.minimum(nodes, member.count), count).astype(np.int64)
            fits &= room >= member.count
            reach |= allowed
        milli = np.maximum(free.gpu[COMPUTE], 0) * reach[inventory.node_of]
        need = sum(member.ask.milli * member.count for member in near)
        fits &= np.bincount(of_device, milli, count) >= need
        for kind, asked in ((COMPUTE, "cpu_milli"), (MEMORY, "memory")):
            need = sum(getattr(member.ask, asked) * member.count for member in near)
            there = np.maximum(free.node[kind], 0) * reach
            fits &= (there[inventory.node_of_link] if is_link else np.bincount(number, there, count)) >= need
        return fits, np.bincount(of_device, is_idle(free.gpu), count).astype(np.int64)


def taken(inventory: Inventory, free: Free, ask: ResourceRequest, workers: Sequence[Assignment]) -> Free:
    """What is free once these workers have their places."""
    gpu, node, idle = free.gpu.copy(), free.node.copy(), free.idle.copy()
    milli, memory = ask.on_device
    for worker in workers:
        at = inventory.index[worker.node]
        node[COMPUTE, at] -= ask.cpu_milli
        node[MEMORY, at] -= ask.memory
        devices = [int(inventory.offset[at]) + index for index in worker.gpus]
        idle[at] -= int(np.count_nonzero(gpu[COMPUTE, devices] == WHOLE))
        gpu[COMPUTE, devices] -= milli
        gpu[MEMORY, devices] -= memory
    return Free(gpu, node, idle)


def _only(inventory: Inventory, free: Free, devices: Bools) -> Free:
    """What is free on these devices, as if all others were full. devices: shape [G]."""
    return free if devices.all() else free_of(inventory, np.where(devices, free.gpu, 0), free.node)
