"""The arrays that scorers read and keep, side by side as plain tuples, so that compiled loops take them as they are.

N nodes, D devices on the largest node, K shapes with GPUs, X shapes with two or more whole GPUs. A node's kind is its
GPU model and memory; what a worker may use is a mask over kinds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpushare.packing import Bools
from scheduler.model.snapshot import Ints

Floats = NDArray[np.float64]

CPU, RAM, GPUS, MILLI, VRAM = range(5)  # columns of a want: per worker; GPUS whole ones, or MILLI and VRAM of one
BITS = 32  # of a device's number are MiB
MIB = (1 << BITS) - 1
NEVER = -(1 << 60)  # the gain where a worker does not fit
SHARED, IDLE = 0, 1  # columns of scores: on a device in use (or none), on idle ones
UNKNOWN = -1  # no packable capacity is remembered
NO_SHAPE = -1  # the rest of a sequence


class Fleet(NamedTuple):
    """What is free. kind: [N]; host: [N, 2] 1/1000 cores and MiB; gpu: [N, D]; version: [N].

    A device is one number, milli-GPU << BITS | MiB, so that devices sort and hash fast; 0 beyond a node's devices.
    A node's version is another whenever its row is another.
    """

    kind: Ints
    host: Ints
    gpu: Ints
    version: Ints


class Want(NamedTuple):
    """One worker's ask. numbers: [5]; may: [kinds]."""

    numbers: Ints
    may: Bools


class Stream(NamedTuple):
    """Shapes with GPUs, and the sequences. wants: [K, 5]; may: [K, kinds]; order: [M, L] shapes, then NO_SHAPE."""

    wants: Ints
    may: Bools
    order: Ints


class Memo(NamedTuple):
    """Packable capacities by state, with open addressing. keys: [2^n, 3 + D] kind, cpu, ram, devices; used: [1]."""

    keys: Ints
    values: Ints
    used: Ints


class Now(NamedTuple):
    """The packable capacity of each node. seen: [N] version of the row it was computed for; packable: [N]."""

    seen: Ints
    packable: Ints


class Scores(NamedTuple):
    """One shape on all nodes. seen: [N] version of the row it was computed for; gain, device: [N, 2]."""

    seen: Ints
    gain: Ints
    device: Ints


class Supply(NamedTuple):
    """What the cluster still has of what coming work needs whole. X shapes with two or more whole GPUs.

    wants: [X, 5]; may: [X, kinds]; caps: [X, N] of each that a node takes now; slots: [X] their sums;
    free: [N] milli-GPU; of_kind: [kinds] their sums; seen: [N] the row's version they were counted for.
    """

    wants: Ints
    may: Bools
    caps: Ints
    slots: Ints
    free: Ints
    of_kind: Ints
    seen: Ints


class ShadowPrices(NamedTuple):
    """What a worker pays in milli-GPU: whole: [X] for each copy of a shape it destroys; kind: [kinds] on such nodes."""

    whole: Floats
    kind: Floats


def new_memo(devices: int, size: int) -> Memo:
    """An empty memo of a power of two."""
    values = np.full(size, UNKNOWN, dtype=np.int64)
    return Memo(np.zeros((size, 3 + devices), dtype=np.int64), values, np.zeros(1, dtype=np.int64))


def new_now(nodes: int) -> Now:
    """Nothing computed yet."""
    return Now(np.full(nodes, -1, dtype=np.int64), np.zeros(nodes, dtype=np.int64))


def new_scores(nodes: int) -> Scores:
    """Nothing computed yet."""
    gain, device = np.full((nodes, 2), NEVER, dtype=np.int64), np.full((nodes, 2), -1, dtype=np.int64)
    return Scores(np.full(nodes, -1, dtype=np.int64), gain, device)
