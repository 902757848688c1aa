"""Which GPU takes a share, and which whole GPUs go together: best or worst fit over columns, in exact integers.

Columns have shape [2, D]: free milli-GPU and free MiB of D devices, 0 (or less) where a device
is lost. Nothing here knows of nodes or workloads.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpushare.gpu import WHOLE, Share

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMPUTE, MEMORY = 0, 1


def shares_that_fit(free: Ints, share: Share) -> Ints:
    """How many equal shares each device takes, by compute and by memory; one if these keep apart. Shape [D]."""
    # A device may hold more than it has now, if it shrank: then it takes nothing, not even what asks no memory.
    by_compute: Ints = np.maximum(free[COMPUTE], 0) // share.guarantee
    by_memory = np.maximum(free[MEMORY], 0) // share.memory if share.memory else by_compute
    most = np.where(free[MEMORY] >= share.memory, np.minimum(by_compute, by_memory), 0)
    return np.minimum(most, 1) if share.labels.anti_affinity else most


def take_share(free: Ints, device: int, share: Share) -> None:
    """Take a share's place on a device, in place. One that keeps apart leaves nothing there to others like it."""
    free[COMPUTE, device] -= share.guarantee
    free[MEMORY, device] -= share.memory
    if share.labels.anti_affinity:
        free[:, device] = 0


def best_device(free: Ints, share: Share, allowed: Bools, fresh_order: Ints) -> int | None:
    """The device that takes a share and is left with the least, or None.

    A device that is shared already comes before an idle one, so that whole GPUs stay whole;
    among idle ones the least `fresh_order` (shape [D]) wins. Ties go to less memory left, then the lower index.
    Source: KubeShare's best fit (HPDC'20, algorithm 1), with memory as a hard limit.
    """
    fits = np.flatnonzero(allowed & (free[COMPUTE] >= share.guarantee) & (free[MEMORY] >= share.memory))
    if not fits.size:
        return None
    left, memory = free[COMPUTE][fits], free[MEMORY][fits]
    is_fresh = left == WHOLE
    best = np.lexsort((memory, left, np.where(is_fresh, fresh_order[fits], 0), is_fresh))
    return int(fits[best[0]])


def worst_device(free: Ints, share: Share, allowed: Bools) -> int | None:
    """The device that takes the most of such shares, and of these the one with most left; or None.

    For shares with an affinity: where the first goes all the others have to go. Ties go to more memory, then the lower
    index. Source: KubeShare's worst fit for these (HPDC'20, algorithm 1).
    """
    takes = np.where(allowed, shares_that_fit(free, share), 0)
    fits = np.flatnonzero(takes)
    if not fits.size:
        return None
    return int(fits[np.lexsort((-free[MEMORY][fits], -free[COMPUTE][fits], -takes[fits]))[0]])


def take_whole(idle: Sequence[int], link_of: Sequence[int], count: int) -> tuple[int, ...]:
    """Choose `count` of the idle devices of one node, within as few NVLink domains as can be.

    idle holds device indices, ascending; link_of is each one's domain, of the same length.
    The smallest domain that holds all is taken, else the largest ones first; among equals the lowest number.
    Raises ValueError when there are too few. Plain lists: a node has a handful of devices.
    """
    if count > len(idle):
        raise ValueError(f"{count} whole GPUs wanted, {len(idle)} idle")
    members: dict[int, list[int]] = {}
    for device, link in zip(idle, link_of, strict=True):
        members.setdefault(link, []).append(device)
    domains = [members[link] for link in sorted(members)]
    taken: list[int] = []
    while (missing := count - len(taken)) > 0:
        enough = [domain for domain in domains if len(domain) >= missing]
        chosen = min(enough, key=len) if enough else max(domains, key=len)
        taken += chosen[:missing]
        domains.remove(chosen)
    return tuple(sorted(taken))
