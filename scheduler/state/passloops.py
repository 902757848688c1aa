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
def give(rows: Ints, chosen: Bools, into: Ints) -> None:
    """Add what the chosen hold."""
    for row in range(rows.shape[0]):
        if chosen[rows[row, 0]]:
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
