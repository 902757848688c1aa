"""Which GPU takes a share, and which whole GPUs go together: best fit over columns, in exact integers.

Columns have shape [2, D]: free milli-GPU and free MiB of D devices, 0 (or less) where a device
is lost. Nothing here knows of nodes or workloads.
"""

import numpy as np
from numpy.typing import NDArray

from gpushare.gpu import WHOLE, Share

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMPUTE, MEMORY = 0, 1


def shares_that_fit(free: Ints, share: Share) -> Ints:
    """How many equal shares each device takes, by compute and by memory. Shape [D]."""
    # A device may hold more than it has now, if it shrank: then it takes nothing, not even what asks no memory.
    by_compute: Ints = np.maximum(free[COMPUTE], 0) // share.guarantee
    by_memory = np.maximum(free[MEMORY], 0) // share.memory if share.memory else by_compute
    return np.where(free[MEMORY] >= share.memory, np.minimum(by_compute, by_memory), 0)


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


def take_whole(idle: Ints, link_of: Ints, count: int) -> tuple[int, ...]:
    """Choose `count` of the idle devices of one node, within as few NVLink domains as can be.

    idle holds device indices, ascending; link_of is each one's domain, of the same shape.
    The smallest domain that holds all is taken, else the largest ones first.
    Raises ValueError when there are too few.
    """
    if count > idle.size:
        raise ValueError(f"{count} whole GPUs wanted, {idle.size} idle")
    links, sizes = np.unique(link_of, return_counts=True)
    taken: list[int] = []
    while (missing := count - len(taken)) > 0:
        enough = np.flatnonzero(sizes >= missing)
        at = enough[np.argmin(sizes[enough])] if enough.size else np.argmax(sizes)
        taken.extend(idle[link_of == links[at]][:missing].tolist())
        sizes[at] = 0
    return tuple(sorted(taken))
