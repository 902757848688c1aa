"""What a look at a service counts, compiled where numba is installed: half of a baseline's time was spent here."""

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.slo.traces import Floats
from controlplane.cluster.serving.traffic import Ints
from scheduler.placement.compiled import compiled

SLOW = 0.9  # the part of the answers that took no longer than what a look calls slow


@compiled
def looked(
    at: Floats, began: Floats, ended: Floats, by: Ints, is_counted: npt.NDArray[np.int8], first: int, begun: int,
    now: float, bounds: Floats, counts: Floats, running: Ints,
) -> tuple[int, float, float, int, int, int, float]:  # fmt: skip
    """Count what ended and what runs of requests `first` to `begun`, which have begun.

    is_counted: 1 for those that an earlier look has counted. bounds: upper ends of the histogram's buckets, s. counts,
    of the buckets, and is_counted change; running, an entry for each replica, is 0 before and after.
    Returns how many ended, their service times' sum, the time that those unfinished have run, how many these are, how
    many of them one replica runs at most, the first of them (`begun`: none), and the time that SLOW of those ended have
    taken at most with their wait, by straight lines between them.
    """
    took = np.empty(begun - first)
    fresh, inside, widest, left = 0, 0, 0, begun
    seconds, unfinished, slow = 0.0, 0.0, 0.0
    for i in range(first, begun):
        if is_counted[i]:
            continue
        if ended[i] <= now:
            is_counted[i] = 1
            service = ended[i] - began[i]
            seconds += service
            counts[min(np.searchsorted(bounds, service), len(bounds) - 1)] += 1
            took[fresh] = ended[i] - at[i]
            fresh += 1
        else:
            left = min(left, i)
            unfinished += now - began[i]
            inside += 1
            running[by[i]] += 1
            widest = max(widest, running[by[i]])
    for i in range(left, begun):
        running[by[i]] = 0
    if fresh:
        some = np.sort(took[:fresh])
        place = SLOW * (fresh - 1)
        low = int(place)
        slow = some[low] + (place - low) * (some[min(low + 1, fresh - 1)] - some[low])
    return fresh, seconds, unfinished, inside, widest, left, slow
