"""The free capacity of all nodes as rows, and what one worker wants as numbers: what every scorer reads."""

from collections.abc import Sequence

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Ints, Inventory
from scheduler.model.workload import ResourceRequest
from scheduler.placement.rows import BITS, CPU, GPUS, MILLI, RAM, VRAM, Fleet, Want

Kind = tuple[str, int]  # GPU model, MiB of a device


def kinds_of(inventory: Inventory) -> tuple[Kind, ...]:
    """The kinds of nodes, sorted."""
    return tuple(sorted({_kind(n.model, n.gpu_memory, n.gpus) for n in inventory.nodes}))


def empty_fleet(inventory: Inventory, kinds: Sequence[Kind]) -> Fleet:
    """Rows for these nodes, with nothing free yet."""
    count, most = len(inventory.nodes), max((n.gpus for n in inventory.nodes), default=0)
    number = {kind: i for i, kind in enumerate(kinds)}
    kind = np.array([number[_kind(n.model, n.gpu_memory, n.gpus)] for n in inventory.nodes], dtype=np.int64)
    return Fleet(
        kind,
        np.zeros((count, 2), dtype=np.int64),
        np.zeros((count, most), dtype=np.int64),
        np.zeros(count, dtype=np.int64),
    )


def want_of(ask: ResourceRequest, kinds: Sequence[Kind]) -> Want:
    """What one worker of this ask wants, for nodes of these kinds."""
    share = ask.share
    milli, vram = (share.guarantee, share.memory) if share else (0, 0)
    numbers = np.array([ask.cpu_milli, ask.memory, 0 if share else ask.gpus, milli, vram], dtype=np.int64)
    least = max(ask.gpu_memory, vram)
    may = [
        not ask.milli or (bool(model) and (not ask.models or model in ask.models) and memory >= least)
        for model, memory in kinds
    ]
    return Want(numbers, np.array(may, dtype=np.bool_))


def take(fleet: Fleet, node: int, devices: Sequence[int], numbers: Ints, *, is_alone: bool = False) -> None:
    """Take one worker's place, in place. is_alone: leave nothing there to others like it."""
    fleet.host[node, 0] -= numbers[CPU]
    fleet.host[node, 1] -= numbers[RAM]
    for device in devices:
        if numbers[GPUS] or is_alone:
            fleet.gpu[node, device] = 0
        else:
            fleet.gpu[node, device] -= (numbers[MILLI] << BITS) + numbers[VRAM]
    fleet.version[node] += 1


def devices_of(fleet: Fleet, node: int, device: int, numbers: Ints) -> tuple[int, ...]:
    """The devices that a worker gets on a node: the chosen one, or the first idle ones; none without GPUs."""
    if numbers[GPUS]:
        return tuple(np.flatnonzero(fleet.gpu[node] >> BITS == WHOLE)[: numbers[GPUS]].tolist())
    return (device,) if numbers[MILLI] else ()


def _kind(model: str, memory: int, gpus: int) -> Kind:
    return (model, memory) if gpus else ("", 0)
