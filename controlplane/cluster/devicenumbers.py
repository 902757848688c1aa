"""Whose a measured device is: a node's device plugin chooses devices itself, so its numbers are not Weft's.

Of a whole GPU, Weft's number is bookkeeping. The DCGM exporter says which pod has a device, and so whose number it is.
What is not clear is left out, and so is not known: it is better than another workload's figures. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from controlplane.cluster.port import GpuUse


@dataclass(frozen=True, slots=True)
class Holder:
    """A worker that is on a node; is_whole: no other workload is on its GPUs. gpus: by Weft's numbers."""

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
    whole = {one.pod: sorted(one.gpus) for one in holders if one.is_whole}
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
    shared = {number for one in holders if not one.is_whole for number in one.gpus}
    return found + _free(free, taken, shared, {use.index for use in told})


def _free(free: Sequence[GpuUse], taken: Set[int], shared: Set[int], numbers: Set[int]) -> list[GpuUse]:
    """Devices that no whole worker has: each keeps its number, or gets one where no worker is.

    A share is known by its number alone, as no exporter names it: where another has that device, nothing is known.
    """
    kept = [use for use in free if use.index not in taken]
    moved = [use for use in free if use.index in taken]
    left = sorted(numbers - taken - shared - {use.index for use in kept})
    return [_with_number(use, use.index) for use in kept] + list(map(_with_number, moved, left))


def _with_number(use: GpuUse, number: int) -> GpuUse:
    return replace(use, index=number, pods=None)
