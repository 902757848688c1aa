"""What `loops` computes, with numpy: the reference of the compiled form, and its stand-in where numba is missing.

S states at a time are played together, so that the cost of Python is paid per step and not per state.
"""

import numpy as np

from gpushare.gpu import WHOLE
from gpushare.packing import Bools
from scheduler.model.snapshot import Ints
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
    VRAM,
    Fleet,
    Floats,
    Now,
    Scores,
    ShadowPrices,
    Stream,
    Supply,
)


class Packables:
    """Packable capacities by state, remembered up to a number of states."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, int] = {}

    def of(self, rows: Ints, stream: Stream) -> Ints:
        """The packable capacity of each state. rows: [S, 3 + D] kind, cpu, ram, devices ascending; shape [S]."""
        keys = [row.tobytes() for row in rows]
        missing = {key: at for at, key in enumerate(keys) if key not in self._known}
        if missing:
            if len(self._known) + len(missing) > self._most:
                self._known.clear()
                missing = {key: at for at, key in enumerate(keys)}
            values = roll_out(rows[list(missing.values())], stream).tolist()
            self._known.update(zip(missing, values, strict=True))
        return np.array([self._known[key] for key in keys], dtype=np.int64)


def roll_out(rows: Ints, stream: Stream) -> Ints:
    """Milli-GPU that all sequences together pack onto each state; see `loops.roll_out`. Shape [S]."""
    states, sequences = len(rows), len(stream.order)
    host = np.repeat(rows[:, None, 1:3], sequences, axis=1)  # [S, M, 2]
    gpu = np.repeat(rows[:, None, 3:], sequences, axis=1)  # [S, M, D]
    total = np.zeros((states, sequences), dtype=np.int64)
    for shapes in stream.order.T:
        want, is_one = stream.wants[shapes], shapes >= 0  # [M, 5], [M]
        may = stream.may[shapes][:, rows[:, 0]].T & is_one  # [S, M]
        may &= (host[:, :, 0] >= want[:, CPU]) & (host[:, :, 1] >= want[:, RAM])
        taken = _take_whole(gpu, want, may) + _take_share(gpu, want, may)
        done = taken > 0
        host[:, :, 0] -= np.where(done, want[:, CPU], 0)
        host[:, :, 1] -= np.where(done, want[:, RAM], 0)
        total += taken
    packable: Ints = total.sum(axis=1)
    return packable


def _take_whole(gpu: Ints, want: Ints, may: Bools) -> Ints:
    """Take whole GPUs in place; what each state and sequence gave. Shape [S, M]."""
    idle = gpu >> BITS == WHOLE
    fits = may & (want[:, GPUS] > 0) & (idle.sum(axis=2) >= want[:, GPUS])
    gpu[idle & (np.cumsum(idle, axis=2) <= want[:, GPUS, None]) & fits[:, :, None]] = 0
    return np.where(fits, want[:, GPUS] * WHOLE, 0)


def _take_share(gpu: Ints, want: Ints, may: Bools) -> Ints:
    """Take shares in place, each of the fullest device that fits; what each gave. Shape [S, M]."""
    if not gpu.shape[2]:
        return np.zeros(may.shape, dtype=np.int64)
    milli, memory = want[:, MILLI], want[:, VRAM]
    able = (gpu >> BITS >= milli[:, None]) & (gpu & MIB >= memory[:, None])
    best = np.where(able, gpu, np.iinfo(np.int64).max).argmin(axis=2)
    fits = may & (milli > 0) & able.any(axis=2)
    state, sequence = np.nonzero(fits)
    gpu[state, sequence, best[fits]] -= ((milli << BITS) + memory)[sequence]
    return np.where(fits, milli, 0)


def refresh(
    fleet: Fleet, numbers: Ints, may: Bools, stream: Stream, packables: Packables, now: Now, scores: Scores
) -> None:
    """Bring one shape's scores up to date; see `loops.refresh`."""
    stale = np.flatnonzero(scores.seen != fleet.version)
    scores.seen[stale] = fleet.version[stale]
    scores.gain[stale], scores.device[stale] = NEVER, -1
    stale = stale[may[fleet.kind[stale]] & (fleet.host[stale] >= numbers[[CPU, RAM]]).all(axis=1)]
    nodes, columns, devices, after = _candidates(fleet, numbers, stale)
    if not nodes.size:
        return
    unknown = np.unique(nodes[now.seen[nodes] != fleet.version[nodes]])
    now.packable[unknown] = _packable(_rows(fleet, unknown), stream, packables)
    now.seen[unknown] = fleet.version[unknown]
    gains = _packable(after, stream, packables) - now.packable[nodes]
    free = fleet.gpu[nodes, devices] if fleet.gpu.shape[1] else np.zeros_like(nodes)
    for at in np.lexsort((-devices, -free, gains)).tolist():  # the best comes last and stays
        scores.gain[nodes[at], columns[at]] = gains[at]
        scores.device[nodes[at], columns[at]] = devices[at]


def _candidates(fleet: Fleet, numbers: Ints, nodes: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Places on these nodes: node, column, device (-1), and the state after each, shape [S, 3 + D]."""
    rows = _rows(fleet, nodes)
    rows[:, 1:3] -= numbers[[CPU, RAM]]
    if numbers[MILLI]:
        able = (rows[:, 3:] >> BITS >= numbers[MILLI]) & (rows[:, 3:] & MIB >= numbers[VRAM])
        at, device = np.nonzero(able)
        after = rows[at]
        after[np.arange(len(at)), 3 + device] -= (numbers[MILLI] << BITS) + numbers[VRAM]
        columns = np.where(rows[at, 3 + device] >> BITS == WHOLE, IDLE, SHARED)
        return nodes[at], columns, device.astype(np.int64), after
    idle = rows[:, 3:] >> BITS == WHOLE
    fits = np.flatnonzero(idle.sum(axis=1) >= numbers[GPUS])
    rows[:, 3:][idle & (np.cumsum(idle, axis=1) <= numbers[GPUS])] = 0
    column = IDLE if numbers[GPUS] else SHARED
    return nodes[fits], np.full(len(fits), column), np.full(len(fits), -1), rows[fits]


def _rows(fleet: Fleet, nodes: Ints) -> Ints:
    return np.column_stack((fleet.kind[nodes], fleet.host[nodes], fleet.gpu[nodes]))


def _packable(rows: Ints, stream: Stream, packables: Packables) -> Ints:
    rows = rows.copy()
    rows[:, 3:].sort(axis=1)
    out = np.zeros(len(rows), dtype=np.int64)
    some = np.flatnonzero((rows[:, 3:] >> BITS).any(axis=1))
    out[some] = packables.of(rows[some], stream)
    return out


def choose(
    fleet: Fleet,
    numbers: Ints,
    allowed: Bools,
    scores: Scores,
    supply: Supply,
    shadow_prices: ShadowPrices,
    sequences: int,
) -> tuple[int, int, float]:
    """The node, device and score; see `loops.choose`."""
    score = (
        scores.gain / sequences
        - shadow_prices.kind[fleet.kind][:, None]
        - _destroyed(fleet, numbers, supply, shadow_prices)
    )
    score[~allowed] = -np.inf
    score[scores.gain == NEVER] = -np.inf
    best = score.max(initial=-np.inf)
    if best == -np.inf:
        return -1, -1, best
    node, column = np.nonzero(score == best)
    device = scores.device[node, column]
    free = np.where(device >= 0, fleet.gpu[node, device] if fleet.gpu.shape[1] else 0, WHOLE << BITS)
    first = int(np.argmin(free))
    return int(node[first]), int(device[first]), float(best)


def _destroyed(fleet: Fleet, numbers: Ints, supply: Supply, shadow_prices: ShadowPrices) -> Floats:
    """The dearest loss among the whole shapes that are larger than this worker. Shape [N, 2]."""
    own = max(int(numbers[GPUS]), 1)
    idle = (fleet.gpu >> BITS == WHOLE).sum(axis=1)
    worst = np.zeros((len(idle), 2), dtype=np.float64)
    for want, had, price in zip(supply.wants, supply.caps, shadow_prices.whole, strict=True):
        if want[GPUS] <= own or price == 0.0:
            continue
        for column, used in ((SHARED, 0), (IDLE, own)):
            left = (idle - used) // want[GPUS]
            for axis, what in ((0, CPU), (1, RAM)):
                if want[what]:
                    left = np.minimum(left, (fleet.host[:, axis] - numbers[what]) // want[what])
            lost = np.where(had > 0, price * (had - np.maximum(left, 0)), 0.0)
            worst[:, column] = np.maximum(worst[:, column], lost)
    return worst
