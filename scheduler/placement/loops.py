"""The inner loops of placement, compiled where numba is installed; `arrays` computes the same with numpy.

Everything that is compiled together stands in this one module: machine code is kept by the module's date, and would
not notice a change in another.
"""

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.snapshot import Ints
from scheduler.placement.compiled import compiled
from scheduler.placement.rows import (
    BITS,
    CPU,
    GPUS,
    IDLE,
    MIB,
    MILLI,
    NEVER,
    RAM,
    SHARED,
    UNKNOWN,
    VRAM,
    Fleet,
    Memo,
    Now,
    Scores,
    ShadowPrices,
    Stream,
    Supply,
)

_PRIME = 1099511628211  # of the FNV hash


@compiled
def refresh(fleet: Fleet, numbers: Ints, may: Bools, stream: Stream, memo: Memo, now: Now, scores: Scores) -> None:
    """Bring one shape's scores up to date: the packable capacity each node loses, in milli-GPU of all sequences."""
    row = np.empty(memo.keys.shape[1], dtype=np.int64)
    for node in range(fleet.kind.shape[0]):
        if scores.seen[node] == fleet.version[node]:
            continue
        scores.seen[node] = fleet.version[node]
        for column in range(2):
            scores.gain[node, column] = NEVER
            scores.device[node, column] = -1
        gpu = fleet.gpu[node]
        if not may[fleet.kind[node]] or copies(fleet.host[node, 0], fleet.host[node, 1], gpu, numbers) == 0:
            continue
        if now.seen[node] != fleet.version[node]:
            now.seen[node] = fleet.version[node]
            _fill(row, fleet, node)
            now.packable[node] = _packable(row, stream, memo)
        if numbers[MILLI] == 0:
            _fill(row, fleet, node)
            _take(row, numbers, -1)
            scores.gain[node, IDLE if numbers[GPUS] > 0 else SHARED] = _packable(row, stream, memo) - now.packable[node]
            continue
        _score_devices(row, fleet, numbers, node, stream, memo, now, scores)


@compiled
def _score_devices(
    row: Ints, fleet: Fleet, numbers: Ints, node: int, stream: Stream, memo: Memo, now: Now, scores: Scores
) -> None:
    """A share's best device in use, and its best idle one. Ties: less free, then the lower index."""
    gpu = fleet.gpu[node]
    for device in range(gpu.shape[0]):
        if not fits_device(gpu[device], numbers) or _is_repeated(gpu, device):
            continue
        _fill(row, fleet, node)
        _take(row, numbers, device)
        gain = _packable(row, stream, memo) - now.packable[node]
        column = IDLE if gpu[device] >> BITS == WHOLE else SHARED
        best = scores.device[node, column]
        if gain > scores.gain[node, column] or (gain == scores.gain[node, column] and gpu[device] < gpu[best]):
            scores.gain[node, column] = gain
            scores.device[node, column] = device


@compiled
def _fill(row: Ints, fleet: Fleet, node: int) -> None:
    row[0], row[1], row[2] = fleet.kind[node], fleet.host[node, 0], fleet.host[node, 1]
    for device in range(fleet.gpu.shape[1]):
        row[3 + device] = fleet.gpu[node, device]


@compiled
def _take(row: Ints, numbers: Ints, device: int) -> None:
    """Take a worker's place of a state: on this device, or idle ones."""
    row[1] -= numbers[CPU]
    row[2] -= numbers[RAM]
    if device >= 0:
        row[3 + device] -= (numbers[MILLI] << BITS) + numbers[VRAM]
    _take_idle(row, 3, numbers[GPUS])


@compiled
def _is_repeated(gpu: Ints, device: int) -> bool:
    for other in range(device):  # noqa: SIM110  loops are what gets compiled
        if gpu[other] == gpu[device]:
            return True
    return False


@compiled
def _sort(row: Ints) -> None:
    """Order a row's devices by what is free on them, as their order changes nothing."""
    for end in range(4, row.shape[0]):
        device, at = row[end], end
        while at > 3 and row[at - 1] > device:
            row[at] = row[at - 1]
            at -= 1
        row[at] = device


@compiled
def _packable(row: Ints, stream: Stream, memo: Memo) -> int:
    """The packable capacity of a state, remembered. The row's devices are sorted on the way."""
    if row.shape[0] > 3:
        _sort(row)
    if row.shape[0] == 3 or row[-1] >> BITS == 0:  # nothing is free on the fullest device
        return 0
    size = memo.values.shape[0]
    mixed = 0
    for value in row:
        mixed = (mixed ^ value) * _PRIME
        mixed ^= mixed >> 29
    at = mixed & (size - 1)
    while memo.values[at] != UNKNOWN:
        if _is_equal(memo.keys[at], row):
            return int(memo.values[at])
        at = (at + 1) & (size - 1)
    if memo.used[0] * 2 >= size:
        memo.values[:] = UNKNOWN
        memo.used[0] = 0
        at = mixed & (size - 1)
    memo.keys[at] = row
    memo.values[at] = roll_out(row, stream)
    memo.used[0] += 1
    return int(memo.values[at])


@compiled
def _is_equal(one: Ints, other: Ints) -> bool:
    for at in range(one.shape[0]):  # noqa: SIM110  loops are what gets compiled
        if one[at] != other[at]:
            return False
    return True


@compiled
def roll_out(row: Ints, stream: Stream) -> int:
    """Milli-GPU that all sequences together pack onto a node in this state (kind, cpu, ram, devices ascending).

    A share goes to the fullest device that takes it, whole GPUs to idle devices; a worker that does not fit passes by.
    """
    first, all_free, idle, total = len(row), 0, 0, 0
    while first > 3 and row[first - 1] >> BITS > 0:  # devices without anything free come first, and are left out
        first -= 1
        all_free += row[first] >> BITS
        idle += row[first] >> BITS == WHOLE
    could, shapes = np.zeros(stream.wants.shape[0], dtype=np.bool_), 0
    for shape in range(stream.wants.shape[0]):  # what does not fit now never will: the rest only shrinks
        is_host = stream.wants[shape, CPU] <= row[1] and stream.wants[shape, RAM] <= row[2]
        is_device = stream.wants[shape, GPUS] <= idle and stream.wants[shape, MILLI] <= row[-1] >> BITS
        could[shape] = is_host and is_device and stream.may[shape, row[0]]
        shapes += could[shape]
    left, can = np.empty_like(row), np.empty_like(could)
    for sequence in range(stream.order.shape[0]):
        left[:], can[:] = row, could
        free, still = all_free, shapes
        for step in range(stream.order.shape[1]):
            shape = stream.order[sequence, step]
            if shape < 0 or free == 0 or still == 0:
                break
            if can[shape]:
                taken = _pack(left, first, stream.wants, shape)
                free -= taken
                if taken == 0 and stream.wants[shape, GPUS] + stream.wants[shape, MILLI] > 0:
                    can[shape], still = False, still - 1
        total += all_free - free
    return total


@compiled
def _pack(row: Ints, first: int, wants: Ints, shape: int) -> int:
    """Pack one worker onto a node, in place; the milli-GPU it takes, 0 if it does not fit."""
    if wants[shape, CPU] > row[1] or wants[shape, RAM] > row[2]:
        return 0
    whole, milli, memory = wants[shape, GPUS], wants[shape, MILLI], wants[shape, VRAM]
    if whole > 0:
        idle = 0
        for at in range(first, row.shape[0]):
            idle += row[at] >> BITS == WHOLE
        if idle < whole:
            return 0
        _take_idle(row, first, whole)
    else:
        need, best, least = milli << BITS, -1, (WHOLE + 1) << BITS
        for at in range(first, row.shape[0]):
            if need <= row[at] < least and memory <= row[at] & MIB:
                best, least = at, row[at]
        if best < 0:
            return 0
        row[best] -= need + memory
    row[1] -= wants[shape, CPU]
    row[2] -= wants[shape, RAM]
    return int(whole * WHOLE + milli)


@compiled
def _take_idle(row: Ints, first: int, count: int) -> None:
    for at in range(first, row.shape[0]):
        if count > 0 and row[at] >> BITS == WHOLE:
            row[at] = 0
            count -= 1


@compiled
def choose(
    fleet: Fleet,
    numbers: Ints,
    allowed: Bools,
    scores: Scores,
    supply: Supply,
    shadow_prices: ShadowPrices,
    sequences: int,
) -> tuple[int, int, float]:
    """The node, the device for a share (-1: none, or idle ones), and the score, in milli-GPU.

    Ties: less free on the device, then the order. Nowhere: node -1.
    """
    best, node_of, device_of, free_of = -np.inf, -1, -1, 0
    for node in range(fleet.kind.shape[0]):
        if not allowed[node]:
            continue
        for column in range(2):
            gain = scores.gain[node, column]
            if gain == NEVER:
                continue
            score = gain / sequences - shadow_prices.kind[fleet.kind[node]]
            if score < best:
                continue
            score -= _destroyed(fleet, node, numbers, column, supply, shadow_prices)
            device = scores.device[node, column]
            free = fleet.gpu[node, device] if device >= 0 else WHOLE << BITS
            if score > best or (score == best and free < free_of):
                best, node_of, device_of, free_of = score, node, device, free
    return node_of, device_of, best


@compiled
def _destroyed(
    fleet: Fleet, node: int, numbers: Ints, column: int, supply: Supply, shadow_prices: ShadowPrices
) -> float:
    """The dearest loss among the whole shapes that are larger than this worker."""
    own = max(numbers[GPUS], 1)
    used = own if column == IDLE else 0
    idle = -1
    worst = 0.0
    for shape in range(supply.wants.shape[0]):
        had = supply.caps[shape, node]
        if had == 0 or shadow_prices.whole[shape] == 0.0 or supply.wants[shape, GPUS] <= own:
            continue
        if idle < 0:
            idle = idle_of(fleet.gpu[node])
        left = copies_left(
            fleet.host[node, 0] - numbers[CPU], fleet.host[node, 1] - numbers[RAM], idle - used, supply.wants[shape]
        )
        worst = max(worst, shadow_prices.whole[shape] * (had - left))
    return worst


@compiled
def copies_left(cpu: int, ram: int, idle: int, numbers: Ints) -> int:
    """How many workers with whole GPUs a node takes."""
    most = idle // numbers[GPUS]
    if numbers[CPU] > 0:
        most = min(most, cpu // numbers[CPU])
    if numbers[RAM] > 0:
        most = min(most, ram // numbers[RAM])
    return int(max(most, 0))


@compiled
def recount(fleet: Fleet, supply: Supply) -> None:
    """Bring the counts up to date with the rows that are others now."""
    for node in range(fleet.kind.shape[0]):
        if supply.seen[node] == fleet.version[node]:
            continue
        supply.seen[node] = fleet.version[node]
        kind, idle, free = fleet.kind[node], 0, 0
        for device in fleet.gpu[node]:
            idle += device >> BITS == WHOLE
            free += device >> BITS
        supply.of_kind[kind] += free - supply.free[node]
        supply.free[node] = free
        for shape in range(supply.wants.shape[0]):
            now = 0
            if supply.may[shape, kind]:
                now = copies_left(fleet.host[node, 0], fleet.host[node, 1], idle, supply.wants[shape])
            supply.slots[shape] += now - supply.caps[shape, node]
            supply.caps[shape, node] = now


@compiled
def fits_device(device: int, numbers: Ints) -> bool:
    """Whether a device takes a share."""
    return bool(device >> BITS >= numbers[MILLI] and device & MIB >= numbers[VRAM])


@compiled
def idle_of(gpu: Ints) -> int:
    """How many of a node's devices are free."""
    count = 0
    for device in gpu:
        count += device >> BITS == WHOLE
    return count


@compiled
def copies(cpu: int, ram: int, gpu: Ints, numbers: Ints) -> int:
    """On how many places of one node a worker fits: its devices with enough free, over the devices it needs.

    A device counts once; cores and memory only have to allow one worker. Work without GPUs: 0 or 1.
    """
    if numbers[CPU] > cpu or numbers[RAM] > ram:
        return 0
    if numbers[GPUS] > 0:
        return int(idle_of(gpu) // numbers[GPUS])
    if numbers[MILLI] == 0:
        return 1
    count = 0
    for device in gpu:
        count += fits_device(device, numbers)
    return count


@compiled
def total_slots(fleet: Fleet, numbers: Ints, may: Bools) -> int:
    """On how many places of all nodes a worker fits."""
    total = 0
    for node in range(fleet.kind.shape[0]):
        if may[fleet.kind[node]]:
            total += copies(fleet.host[node, 0], fleet.host[node, 1], fleet.gpu[node], numbers)
    return total
