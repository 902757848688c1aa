"""First fit and best fit: scorers that look at what is free, and not at what is to come."""

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.placement.rows import BITS, CPU, GPUS, MIB, MILLI, RAM, VRAM, Fleet, Ints, Want


class FirstFit:
    """The first node that takes the worker; there the fullest device that takes a share."""

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        room = _room(fleet, want)
        able = np.flatnonzero(allowed & _fits(fleet, want, room))
        if not able.size:
            return None
        node = int(able[0])
        return node, _fullest(fleet, node, room, want)


class BestFit:
    """The node with the least left of cores and GPUs, each as a part of the largest node's; there the fullest device.

    Source: the baseline `BestFit` of FGD (ATC'23, section 6.1).
    """

    def __init__(self, most_cpu: int, most_gpus: int) -> None:
        self._most_cpu, self._most_milli = max(1, most_cpu), max(1, most_gpus * WHOLE)

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        room = _room(fleet, want)
        able = np.flatnonzero(allowed & _fits(fleet, want, room))
        if not able.size:
            return None
        left = fleet.host[able, 0] / self._most_cpu + (fleet.gpu[able] >> BITS).sum(axis=1) / self._most_milli
        node = int(able[np.argmin(left)])
        return node, _fullest(fleet, node, room, want)


def _room(fleet: Fleet, want: Want) -> Bools:
    """The devices that take a share, or that are idle. Shape [N, D]."""
    numbers, milli = want.numbers, fleet.gpu >> BITS
    if not numbers[MILLI]:
        idle: Bools = np.equal(milli, WHOLE)
        return idle
    return (milli >= numbers[MILLI]) & ((fleet.gpu & MIB) >= numbers[VRAM])


def _fullest(fleet: Fleet, node: int, room: Bools, want: Want) -> int:
    if not want.numbers[MILLI]:
        return -1
    return int(np.argmin(np.where(room[node], fleet.gpu[node], np.iinfo(np.int64).max)))


def _fits(fleet: Fleet, want: Want, room: Bools) -> Bools:
    numbers: Ints = want.numbers
    host = (fleet.host[:, 0] >= numbers[CPU]) & (fleet.host[:, 1] >= numbers[RAM]) & want.may[fleet.kind]
    devices = max(int(numbers[GPUS]), int(numbers[MILLI] > 0))
    return host & (room.sum(axis=1) >= devices)
