"""First fit and best fit: scorers that look at what is free, and not at what is to come."""

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.snapshot import Ints
from scheduler.placement.compiled import compiled
from scheduler.placement.rows import BITS, CPU, GPUS, MIB, MILLI, RAM, VRAM, Fleet, Want


class FirstFit:
    """The first node that takes the worker; there the fullest device that takes a share."""

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        return _found(_first(fleet, want.numbers, want.may, allowed))

    def offer(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int, float] | None:
        """As `choose`; all places are worth the same, so of several models the first is taken."""
        found = self.choose(fleet, want, allowed)
        return None if found is None else (*found, 0.0)


class BestFit:
    """The node with the least left of cores and GPUs, each as a part of the largest node's; there the fullest device.

    Source: the baseline `BestFit` of FGD (ATC'23, section 6.1).
    """

    def __init__(self, max_cpu: int, max_gpus: int) -> None:
        self._most = np.array([max(1, max_cpu), max(1, max_gpus) * WHOLE], dtype=np.float64)

    def choose(self, fleet: Fleet, want: Want, allowed: Bools) -> tuple[int, int] | None:
        """The node and device for one worker among the allowed nodes, shape [N], or None if it fits on none."""
        return _found(_tightest(fleet, want.numbers, want.may, allowed, self._most[0], self._most[1]))


def _found(place: tuple[int, int]) -> tuple[int, int] | None:
    return None if place[0] < 0 else (int(place[0]), int(place[1]))


@compiled
def _first(fleet: Fleet, numbers: Ints, may: Bools, allowed: Bools) -> tuple[int, int]:
    for node in range(fleet.kind.shape[0]):
        if allowed[node] and may[fleet.kind[node]] and _fits(fleet, node, numbers):
            return node, _fullest(fleet, node, numbers)
    return -1, -1


@compiled
def _tightest(
    fleet: Fleet, numbers: Ints, may: Bools, allowed: Bools, max_cpu: float, max_milli: float
) -> tuple[int, int]:
    best, least = -1, np.inf
    for node in range(fleet.kind.shape[0]):
        if allowed[node] and may[fleet.kind[node]] and _fits(fleet, node, numbers):
            milli = 0
            for device in fleet.gpu[node]:
                milli += device >> BITS
            left = fleet.host[node, 0] / max_cpu + milli / max_milli
            if left < least:
                best, least = node, left
    return best, _fullest(fleet, best, numbers) if best >= 0 else -1


@compiled
def _fits(fleet: Fleet, node: int, numbers: Ints) -> bool:
    if numbers[CPU] > fleet.host[node, 0] or numbers[RAM] > fleet.host[node, 1]:
        return False
    if numbers[MILLI] > 0:
        return bool(_fullest(fleet, node, numbers) >= 0)
    idle = 0
    for device in fleet.gpu[node]:
        idle += device >> BITS == WHOLE
    return bool(idle >= numbers[GPUS])


@compiled
def _fullest(fleet: Fleet, node: int, numbers: Ints) -> int:
    """The device with the least free that takes a share; -1 for other work."""
    best, gpu = -1, fleet.gpu[node]
    if numbers[MILLI] == 0:
        return best
    for device in range(gpu.shape[0]):
        fits = gpu[device] >> BITS >= numbers[MILLI] and gpu[device] & MIB >= numbers[VRAM]
        if fits and (best < 0 or gpu[device] < gpu[best]):
            best = device
    return best
