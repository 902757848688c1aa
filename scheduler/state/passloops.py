"""What `passes` computes, compiled where numba is installed: one pass over nodes or devices, not one for each step.

Loaded by what places work (`passes.load`), as the compiler behind it takes a second to load.
"""

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, IDLE, MEMORY, Bools, Ints
from scheduler.placement.compiled import compiled
from scheduler.placement.rows import BITS, MIB, Floats


@compiled
def idle_of(compute: Ints, offset: Ints) -> Ints:
    """How many devices of each node are idle."""
    nodes = offset.shape[0] - 1
    out = np.zeros(nodes, dtype=np.int64)
    for node in range(nodes):
        for device in range(offset[node], offset[node + 1]):
            out[node] += compute[device] == WHOLE
    return out


@compiled
def workers_on(free: Ints, idle: Ints, allowed: Bools, cpu: int, memory: int, gpus: int, many: int) -> Ints:
    """How many workers with whole GPUs, or without, each node takes."""
    nodes = idle.shape[0]
    out = np.zeros(nodes, dtype=np.int64)
    for node in range(nodes):
        if not allowed[node]:
            continue
        most = many
        if cpu > 0:
            most = min(most, free[COMPUTE, node] // cpu)
        if memory > 0:
            most = min(most, free[MEMORY, node] // memory)
        if gpus > 0:
            most = min(most, idle[node] // gpus)
        out[node] = max(most, 0)
    return out


@compiled
def shares_on(gpu: Ints, offset: Ints, milli: int, memory: int, separate: bool, together: bool) -> Ints:
    """How many shares each node takes by its devices."""
    nodes = offset.shape[0] - 1
    out = np.zeros(nodes, dtype=np.int64)
    for node in range(nodes):
        for device in range(offset[node], offset[node + 1]):
            if gpu[MEMORY, device] < memory:
                continue
            fits = max(gpu[COMPUTE, device], 0) // milli
            if memory > 0:
                fits = min(fits, gpu[MEMORY, device] // memory)
            if separate:
                fits = min(fits, 1)
            out[node] = max(out[node], fits) if together else out[node] + fits
    return out


@compiled
def give_by(rows: Ints, ends: Floats, lent_from: Ints, at: float, time: float, into: Ints) -> None:
    """Add what is free by then."""
    for row in range(rows.shape[0]):
        slot = rows[row, 0]
        until = at if rows[row, rows.shape[1] - 1] >= lent_from[slot] else ends[slot]
        if until <= time:
            into[COMPUTE, rows[row, 1]] += rows[row, 2]
            into[MEMORY, rows[row, 1]] += rows[row, 3]


@compiled
def cheapest(rows: Ints, chosen: Bools, missing: Ints, costs: Floats) -> Floats:
    """What the chosen cost on each node until they hold what is missing there."""
    out = np.zeros(missing.shape[0], dtype=np.float64)
    node, owner, before = -1, -1, 0
    for row in range(rows.shape[0]):
        number = rows[row, 0]
        if not chosen[number]:
            continue
        if rows[row, 1] != node:
            node, owner, before = rows[row, 1], -1, 0
        if number != owner and before < missing[node]:
            out[node] += costs[number]
        owner = number
        before += rows[row, 4]
    return out


@compiled
def follow(fleet: Ints, hosts: Ints, version: Ints, gpu: Ints, node: Ints, offset: Ints) -> None:
    """Have a fleet's rows say what is free."""
    for at in range(version.shape[0]):
        is_other = hosts[at, 0] != node[COMPUTE, at] or hosts[at, 1] != node[MEMORY, at]
        hosts[at, 0] = node[COMPUTE, at]
        hosts[at, 1] = node[MEMORY, at]
        first = offset[at]
        for device in range(first, offset[at + 1]):
            number = (max(gpu[COMPUTE, device], 0) << BITS) + min(max(gpu[MEMORY, device], 0), MIB)
            if fleet[at, device - first] != number:
                fleet[at, device - first] = number
                is_other = True
        if is_other:
            version[at] += 1


@compiled
def without(
    rows: tuple[Ints, Ints], chosen: Bools, now: tuple[Ints, Ints], capacity: Ints, offset: Ints
) -> tuple[Ints, Ints, Ints]:
    """What would be free if the chosen had left: gpu, node, idle."""
    gpu, node = now[0].copy(), now[1].copy()
    for into, held in ((gpu, rows[0]), (node, rows[1])):
        for row in range(held.shape[0]):
            if chosen[held[row, 0]]:
                into[COMPUTE, held[row, 1]] += held[row, 2]
                into[MEMORY, held[row, 1]] += held[row, 3]
    idle = np.zeros(node.shape[1], dtype=np.int64)
    for at in range(node.shape[1]):
        for device in range(offset[at], offset[at + 1]):
            for kind in range(2):
                if capacity[kind, device] <= 0:
                    gpu[kind, device] = 0
            idle[at] += gpu[COMPUTE, device] == WHOLE
    return gpu, node, idle


@compiled
def refresh_later(
    at: int, offset: Ints, capacity: tuple[Ints, Ints], taken: tuple[Ints, Ints], free: tuple[Ints, Ints, Ints]
) -> int:
    """Bring what is free later on one node up to date; by how much what is missing there, below 0, has grown."""
    more, idle = 0, 0
    for kind in range(2):
        left = capacity[1][kind, at] - taken[1][FUTURE_IDLE, kind, at]
        more += min(free[1][kind, at], 0) - min(left, 0)
        free[1][kind, at] = left
        for device in range(offset[at], offset[at + 1]):
            left = capacity[0][kind, device] - taken[0][FUTURE_IDLE, kind, device]
            more += min(free[0][kind, device], 0) - min(left, 0)
            free[0][kind, device] = left
            idle += kind == COMPUTE and left == WHOLE
    free[2][at] = idle
    return more


@compiled
def lower(
    at: int, offset: Ints, into: tuple[Ints, Ints, Ints], one: tuple[Ints, Ints], other: tuple[Ints, Ints]
) -> None:
    """Have one node say the lesser of two."""
    idle = 0
    for kind in range(2):
        into[1][kind, at] = min(one[1][kind, at], other[1][kind, at])
        for device in range(offset[at], offset[at + 1]):
            left = min(one[0][kind, device], other[0][kind, device])
            into[0][kind, device] = left
            idle += kind == COMPUTE and left == WHOLE
    into[2][at] = idle


@compiled
def refresh(
    at: int,
    offset: Ints,
    capacity: tuple[Ints, Ints],
    taken: tuple[Ints, Ints],
    now: tuple[Ints, Ints, Ints],
    later: tuple[Ints, Ints, Ints],
) -> None:
    """Bring what is free on one node up to date."""
    for kind in range(2):
        future = taken[1][FUTURE_IDLE, kind, at]
        later[1][kind, at] = capacity[1][kind, at] - future
        now[1][kind, at] = capacity[1][kind, at] - max(taken[1][IDLE, kind, at], future)
    idle_now, idle_later = 0, 0
    for device in range(offset[at], offset[at + 1]):
        for kind in range(2):
            future = taken[0][FUTURE_IDLE, kind, device]
            later[0][kind, device] = capacity[0][kind, device] - future
            now[0][kind, device] = capacity[0][kind, device] - max(taken[0][IDLE, kind, device], future)
        idle_now += now[0][COMPUTE, device] == WHOLE
        idle_later += later[0][COMPUTE, device] == WHOLE
    now[2][at], later[2][at] = idle_now, idle_later
