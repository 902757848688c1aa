"""What a step takes its time from: computation, exchange of gradients, and input.

    compute   = c0 + c1 * batch of a GPU
    exchange  = 0                                          on one GPU
              = w0 + w1 * (GPUs - 2)                       on one node
              = (b0 + b1 * (GPUs - 2)) * (GPUs of its fullest node) ^ crowd    on several: they share its line
              = p0 * workers / servers + p1 * workers + p2 * servers           with parameter servers
    both      = (compute ^ o + exchange ^ o) ^ (1 / o)     o = 1: one after the other; large: at once
    input     = batch of a worker * (i0 / cores of a worker + i1)              beside both, so the longer one counts
    step      = (both ^ 8 + input ^ 8) ^ (1 / 8)           a smooth maximum

Times are s. All parameters but `crowd` are above 0 and are kept as logarithms. After Pollux (OSDI'21) for computation,
exchange and overlap, and Optimus (EuroSys'18) for parameter servers; crowd and input are our own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.throughput.allocation import Allocation

Floats = npt.NDArray[np.float64]

NAMES = ("c0", "c1", "w0", "w1", "b0", "b1", "crowd", "overlap", "i0", "i1", "p0", "p1", "p2")
COUNT = len(NAMES)
CROWD, OVERLAP = NAMES.index("crowd"), NAMES.index("overlap")
INPUT = NAMES.index("i0")
SHARP = 8.0  # of the smooth maximum
NOTHING = 1e-12  # s


@dataclass(frozen=True, slots=True)
class Columns:
    """The allocations that are asked for, a column for each of their fields; shape [allocations]."""

    batch: Floats
    gpus: Floats
    nodes: Floats
    fullest: Floats
    workers: Floats
    of_worker: Floats
    cpu: Floats
    servers: Floats


@dataclass(frozen=True, slots=True)
class Times:
    """Of a step, s; shape [..., allocations]."""

    compute: Floats
    both: Floats  # computation and exchange
    step: Floats


def columns(allocations: Sequence[Allocation]) -> Columns:
    """As columns."""
    rows = [
        (one.batch, one.total, len(one.gpus), one.gpus[0], one.workers, one.of_worker, one.cpu, one.servers)
        for one in allocations
    ]
    return Columns(*np.array(rows, float).reshape(-1, 8).T)


def times(parameters: Floats, asked: Columns) -> Times:
    """Of parameters [..., COUNT], as they are kept, with each allocation."""
    value = np.exp(parameters)[..., None, :]
    compute = value[..., 0] + value[..., 1] * asked.batch
    more = np.maximum(asked.gpus - 2, 0)
    crowd = asked.fullest ** parameters[..., None, CROWD]
    exchange = np.where(
        asked.servers > 0,
        asked.workers * (value[..., 10] / np.maximum(asked.servers, 1) + value[..., 11])
        + asked.servers * value[..., 12],
        np.where(
            asked.nodes > 1,
            (value[..., 4] + value[..., 5] * more) * crowd,
            np.where(asked.gpus > 1, value[..., 2] + value[..., 3] * more, NOTHING),
        ),
    )
    both = _joined(compute, exchange, 1 + value[..., OVERLAP])
    known = np.where(asked.cpu > 0, 1 / np.maximum(asked.cpu, NOTHING), 0.0)
    wait = asked.batch * asked.of_worker * (value[..., 8] * known + value[..., 9])
    return Times(compute, both, _joined(both, np.maximum(wait, NOTHING), SHARP))


def _joined(one: Floats, other: Floats, power: Floats | float) -> Floats:
    """(one ^ power + other ^ power) ^ (1 / power) of positive numbers, without a power that is too large."""
    longer, shorter = np.maximum(one, other), np.minimum(one, other)
    return np.asarray(longer * (1 + (shorter / longer) ** power) ** (1 / power))
