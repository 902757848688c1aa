"""Passes over all nodes and devices, with numpy: the reference of the compiled form, and its stand-in.

A round on 50,000 GPUs makes thousands of them. `load` has the compiled form (passloops.py) used from then on: only a
process that places work loads the compiler behind it. Both say the same.

N nodes, G devices; free columns are [2 (COMPUTE, MEMORY), ..] as in `Free`; offset: [N + 1], the first device of each
node; rows: what workers hold, [.., (owner, node or device, thousandths, MiB, ..)].
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from gpushare.gpu import WHOLE, Share
from gpushare.packing import shares_that_fit
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, MEMORY, Bools, Columns, Ints, Inventory
from scheduler.placement.compiled import HAS_NUMBA
from scheduler.placement.rows import BITS, MIB, Fleet, Floats

MANY = 1 << 40  # workers a node takes that ask nothing of it
_loops: ModuleType | None = None


class Host(NamedTuple):
    """What one worker asks of its node: 1/1000 cores, MiB, whole GPUs."""

    cpu_milli: int
    memory: int
    gpus: int


def load(*, is_compiled: bool = HAS_NUMBA) -> None:
    """Use the compiled form from now on, or (False) numpy."""
    global _loops
    if not is_compiled:
        _loops = None
        return
    from scheduler.state import passloops

    _loops = passloops


def idle_of(inventory: Inventory, gpu: Ints) -> Ints:
    """How many devices of each node are idle and not lost. gpu: [2, G]; shape [N]."""
    if _loops is not None:
        found: Ints = _loops.idle_of(gpu[COMPUTE], inventory.offset)
        return found
    return np.bincount(inventory.node_of, gpu[COMPUTE] == WHOLE, len(inventory.nodes)).astype(np.int64)


def workers_on(free: Ints, idle: Ints, allowed: Bools, asked: Host) -> Ints:
    """How many workers with whole GPUs, or without any, each allowed node takes. free: [2, N]; idle: [N]; shape [N]."""
    cpu_milli, memory, gpus = asked
    if _loops is not None:
        found: Ints = _loops.workers_on(free, idle, allowed, cpu_milli, memory, gpus, MANY)
        return found
    most = np.full(len(idle), MANY, dtype=np.int64)
    if cpu_milli:
        most = np.minimum(most, free[COMPUTE] // cpu_milli)
    if memory:
        most = np.minimum(most, free[MEMORY] // memory)
    if gpus:
        most = np.minimum(most, idle // gpus)
    return np.where(allowed, np.maximum(most, 0), 0)


def shares_on(inventory: Inventory, gpu: Ints, share: Share) -> Ints:
    """How many such shares each node takes by its devices: the most of one where all go on one. Shape [N]."""
    is_together = bool(share.labels.affinity)
    if _loops is not None:
        is_apart = bool(share.labels.anti_affinity)
        asked = share.guarantee, share.memory, is_apart, is_together
        found: Ints = _loops.shares_on(gpu, inventory.offset, *asked)
        return found
    room = shares_that_fit(gpu, share)
    if not is_together:
        return np.bincount(inventory.node_of, room, len(inventory.nodes)).astype(np.int64)
    most = np.zeros(len(inventory.nodes), dtype=np.int64)
    np.maximum.at(most, inventory.node_of, room)
    return most


def give_by(rows: Ints, ends: Floats, lent_from: Ints, at: float, time: float, into: Ints) -> None:
    """Add what is free by then, in place: what its owner's end frees, and now (`at`) what it holds from a rank on.

    ends, lent_from: by owner, s and ranks; rows: as above, the rank last; into: [2, N] or [2, G].
    """
    if _loops is not None:
        _loops.give_by(rows, ends, lent_from, at, time, into)
        return
    owners = rows[:, 0]
    until = np.where(rows[:, -1] >= lent_from[owners], at, ends[owners])
    _give(rows[until <= time], into)


def _give(rows: Ints, into: Ints) -> None:
    for kind in (COMPUTE, MEMORY):
        into[kind] += np.bincount(rows[:, 1], rows[:, 2 + kind], into.shape[1]).astype(np.int64)


def cheapest(rows: Ints, chosen: Bools, missing: Ints, costs: Floats) -> Floats:
    """What the chosen cost on each node, each once, counted until they hold what is missing there. Shape [N].

    rows: of nodes, (owner, node, .., .., milli-GPU, ..), by node and there by owner; missing: [N], milli-GPU.
    """
    if _loops is not None:
        found: Floats = _loops.cheapest(rows, chosen, missing, costs)
        return found
    rows = rows[chosen[rows[:, 0]]]
    number, node, held = rows[:, 0], rows[:, 1], rows[:, 4]
    total = np.cumsum(held)
    first = np.searchsorted(node, node)  # first row of the same node
    before = total - held - (total[first] - held[first])
    is_first = np.ones(len(rows), dtype=np.bool_)  # an owner counts once a node
    is_first[1:] = (number[1:] != number[:-1]) | (node[1:] != node[:-1])
    counted = is_first & (before < missing[node])
    prices: Floats = np.bincount(node[counted], costs[number[counted]], len(missing)).astype(np.float64)
    return prices


def follow(fleet: Fleet, inventory: Inventory, gpu: Ints, node: Ints) -> None:
    """Have a fleet's rows say what is free, with a new version where they said something else. node: [2, N]."""
    if _loops is not None:
        _loops.follow(fleet.gpu, fleet.host, fleet.version, gpu, node, inventory.offset)
        return
    row, column = inventory.node_of, np.arange(len(inventory.node_of)) - inventory.offset[inventory.node_of]
    devices = np.zeros_like(fleet.gpu)
    devices[row, column] = (np.maximum(gpu[COMPUTE], 0) << BITS) + np.clip(gpu[MEMORY], 0, MIB)
    hosts = node.T
    changed = (devices != fleet.gpu).any(axis=1) | (hosts != fleet.host).any(axis=1)
    fleet.gpu[changed], fleet.host[changed] = devices[changed], hosts[changed]
    fleet.version[changed] += 1


def without(
    inventory: Inventory, rows: tuple[Ints, Ints], chosen: Bools, now: tuple[Ints, Ints]
) -> tuple[Ints, Ints, Ints]:
    """What would be free if the chosen had left: the gpu, node and idle of `Free`. rows: of devices, of nodes.

    now: the gpu and node of what is free; a device that is lost stays so.
    """
    if _loops is not None:
        found: tuple[Ints, Ints, Ints] = _loops.without(rows, chosen, now, inventory.gpu_capacity, inventory.offset)
        return found
    gpu, node = now[0].copy(), now[1].copy()
    for held, into in zip(rows, (gpu, node), strict=True):
        _give(held[chosen[held[:, 0]]], into)
    gpu = np.where(inventory.gpu_capacity > 0, gpu, 0)
    return gpu, node, idle_of(inventory, gpu)


def refresh_later(at: int, inventory: Inventory, taken: Columns, free: tuple[Ints, Ints, Ints]) -> int:
    """Bring what is free later on one node up to date, in place; how much more is missing there than before.

    free: the gpu, node and idle of `Free`. Missing is what they are below 0, thousandths and MiB together.
    """
    if _loops is not None:
        capacity = inventory.gpu_capacity, inventory.node_capacity
        more: int = _loops.refresh_later(at, inventory.offset, capacity, (taken.gpu, taken.node), free)
        return more
    first, end = int(inventory.offset[at]), int(inventory.offset[at + 1])
    gpu, node = free[0][:, first:end], free[1][:, at]
    before = int(np.minimum(gpu, 0).sum() + np.minimum(node, 0).sum())
    gpu[:] = inventory.gpu_capacity[:, first:end] - taken.gpu[FUTURE_IDLE, :, first:end]
    node[:] = inventory.node_capacity[:, at] - taken.node[FUTURE_IDLE, :, at]
    free[2][at] = np.count_nonzero(gpu[COMPUTE] == WHOLE)
    return before - int(np.minimum(gpu, 0).sum() + np.minimum(node, 0).sum())


def lower(
    at: int, inventory: Inventory, into: tuple[Ints, Ints, Ints], one: tuple[Ints, Ints], other: tuple[Ints, Ints]
) -> None:
    """Have one node say the lesser of two, in place. into: the gpu, node, idle of `Free`; the others have no idle."""
    if _loops is not None:
        _loops.lower(at, inventory.offset, into, one, other)
        return
    first, end = int(inventory.offset[at]), int(inventory.offset[at + 1])
    into[0][:, first:end] = np.minimum(one[0][:, first:end], other[0][:, first:end])
    into[1][:, at] = np.minimum(one[1][:, at], other[1][:, at])
    into[2][at] = np.count_nonzero(into[0][COMPUTE, first:end] == WHOLE)


def refresh(
    at: int, inventory: Inventory, taken: Columns, now: tuple[Ints, Ints, Ints], later: tuple[Ints, Ints, Ints]
) -> None:
    """Bring what is free on one node up to date, in place. now, later: the gpu, node and idle of `Free` in each state.

    For a node where none waits for a place that another one leaves, and nothing is lent (`Plan` does those itself).
    """
    capacity = inventory.gpu_capacity, inventory.node_capacity
    if _loops is not None:
        _loops.refresh(at, inventory.offset, capacity, (taken.gpu, taken.node), now, later)
        return
    first, end = int(inventory.offset[at]), int(inventory.offset[at + 1])
    for (gpu, node, idle), used, host in (
        (now, taken.gpu[:, :, first:end].max(axis=0), taken.node[:, :, at].max(axis=0)),
        (later, taken.gpu[FUTURE_IDLE, :, first:end], taken.node[FUTURE_IDLE, :, at]),
    ):
        gpu[:, first:end] = capacity[0][:, first:end] - used
        node[:, at] = capacity[1][:, at] - host
        idle[at] = np.count_nonzero(gpu[COMPUTE, first:end] == WHOLE)
