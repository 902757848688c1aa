"""Whose a measured device is: a node's device plugin chooses devices itself, so its numbers are not Weft's.

Weft's number of a GPU is bookkeeping. The DCGM exporter says which pod has a device, and so whose number it is: a
worker with whole GPUs, or the placeholder that holds one for shares, as these ask Kubernetes for none. What is not
clear is left out, and so is not known: that is better than another workload's figures. Pure.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from controlplane.cluster.port import GpuUse

PLACEHOLDERS = "shares-of-weft"  # the namespace of the pods that hold devices for shares; no team's
LONGEST_NAME = 253  # of a pod


def placeholder(node: str, gpu: int) -> str:
    """The pod that holds a device for shares: one name for a device, so that there is never a second one."""
    whole = f"{node}-gpu-{gpu}"
    if len(whole) <= LONGEST_NAME:
        return whole
    return f"{hashlib.blake2b(node.encode(), digest_size=16).hexdigest()}-gpu-{gpu}"


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod with devices of a node: a worker with whole GPUs, or what holds one for shares. gpus: Weft's numbers."""

    pod: str
    node: str
    gpus: tuple[int, ...]
    is_whole: bool


def numbered(uses: Sequence[GpuUse], holders: Iterable[Holder]) -> tuple[GpuUse, ...]:
    """The same under Weft's numbers."""
    there: dict[str, list[Holder]] = defaultdict(list)
    for holder in holders:
        there[holder.node].append(holder)
    devices: dict[str, list[GpuUse]] = defaultdict(list)
    for use in uses:
        devices[use.node].append(use)
    found = [one for node, its in devices.items() for one in _of_node(its, there.get(node, ()))]
    return tuple(sorted(found, key=lambda use: (use.node, use.index)))


def _of_node(devices: Sequence[GpuUse], holders: Sequence[Holder]) -> list[GpuUse]:
    told = sorted((use for use in devices if use.pods is not None), key=lambda use: use.index)
    named = {pod for use in told for pod in use.pods or ()}
    whole = {one.pod: sorted(one.gpus) for one in holders if one.is_whole or one.pod in named}
    theirs: dict[str, list[GpuUse]] = {pod: [] for pod in whole}
    free = []
    for use in told:
        pods = [pod for pod in use.pods or () if pod in whole]
        if len(pods) == 1:
            theirs[pods[0]].append(use)
        elif not pods:
            free.append(use)
    found = [use for use in devices if use.pods is None]
    for pod, numbers in whole.items():
        if len(theirs[pod]) <= len(numbers):  # else one of them is another's, and which one is not known
            found += map(_with_number, theirs[pod], numbers)
    taken = {number for numbers in whole.values() for number in numbers}
    shared = {number for one in holders if one.pod not in whole for number in one.gpus}
    return found + _free(free, taken, shared, {use.index for use in told})


def _free(free: Sequence[GpuUse], taken: Set[int], shared: Set[int], numbers: Set[int]) -> list[GpuUse]:
    """Devices that none of these has: each keeps its number, or gets one where no worker is.

    Where no exporter names the placeholder, shares are known by their number alone: where another pod has that device,
    nothing is known of them.
    """
    kept = [use for use in free if use.index not in taken]
    moved = [use for use in free if use.index in taken]
    left = sorted(numbers - taken - shared - {use.index for use in kept})
    return [_with_number(use, use.index) for use in kept] + list(map(_with_number, moved, left))


def _with_number(use: GpuUse, number: int) -> GpuUse:
    return replace(use, index=number, pods=None)
