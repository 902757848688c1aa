"""The queue's inner loop, compiled where numba is installed; loaded at the first use, as numba takes a second."""

from controlplane.cluster.serving.outcomes import GAVE_UP
from controlplane.cluster.serving.traffic import Floats, Ints
from scheduler.placement.compiled import compiled


@compiled
def serve(
    at: Floats, size: Floats, hold: Floats, first: int, until: float, free: Floats, owner: Ints, seconds: Floats,
    batch: int, growth: float, patience: float, began: Floats, ended: Floats, by: Ints,
) -> int:  # fmt: skip
    """Serve requests first come first served from number `first` on, as far as what happens before `until` goes.

    free: when each slot is idle again, seconds, a heap; owner: its replica; both change. seconds: of a request of size
    1, by replica. A slot takes up to `batch` requests that wait; the step takes as long as the largest of them, and
    longer by the part `growth` for each but the first. Writes of each request when it began and ended, and by replicase
    slot; returns the number of the first that still waits. There is one slot at least.
    """
    slots = len(free)
    i = first
    while i < len(at):
        start = max(at[i], free[0])
        leaves = at[i] + patience
        if min(start, leaves) >= until:
            break
        if start > leaves:
            began[i], ended[i], by[i] = leaves, leaves, GAVE_UP
            i += 1
            continue
        taken, longest = 1, hold[i]
        while taken < batch and i + taken < len(at) and at[i + taken] <= start:
            longest = max(longest, hold[i + taken])
            taken += 1
        replica = owner[0]
        step = seconds[replica] * (1.0 + growth * (taken - 1))
        for k in range(i, i + taken):
            began[k], by[k] = start, replica
            ended[k] = start + step * (longest if batch > 1 else size[k])
        i += taken
        _replace_first(free, owner, slots, start + step * longest, replica)
    return i


@compiled
def _replace_first(free: Floats, owner: Ints, slots: int, at: float, replica: int) -> None:
    """Give the heap's first slot another time."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= slots:
            break
        if child + 1 < slots and free[child + 1] < free[child]:
            child += 1
        if free[child] >= at:
            break
        free[place], owner[place] = free[child], owner[child]
        place = child
    free[place], owner[place] = at, replica
