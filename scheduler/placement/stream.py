"""The coming work, as sequences of shapes that play the future of one node forward.

A shape that many nodes can take comes rarely to each of them, so the stream is thinned by competition.
Source: our own (ARCHITECTURE.md, "Where a worker goes").
"""

from collections.abc import Sequence

import numpy as np

from scheduler.model.demand import Demand, Shape
from scheduler.model.snapshot import Ints
from scheduler.placement.fleet import Kind, want_of
from scheduler.placement.rows import NO_SHAPE, Stream

SEQUENCES = 16  # more bring nothing (measured up to 64)
HORIZON = 16  # arrivals looked ahead, for each GPU of the cluster
MAX_RATE = 6.0  # of one shape on one node: a node with eight GPUs takes hardly more of what is scarce
SEED = 20231  # of the sequences: any will do, as long as it stays


def stream_of(demand: Demand, kinds: Sequence[Kind], gpus: int) -> Stream:
    """The sequences of a demand on a cluster with so many GPUs; the same for the same input."""
    shapes = [shape for shape in demand.shapes if shape.ask.milli]
    wants = [want_of(shape.ask, kinds) for shape in shapes]
    order = _sequences(_rates(shapes, demand.count, HORIZON * gpus))
    return Stream(
        np.array([want.numbers for want in wants], dtype=np.int64).reshape(-1, 5),
        np.array([want.may for want in wants], dtype=np.bool_).reshape(-1, len(kinds)),
        order,
    )


def _rates(shapes: Sequence[Shape], seen: int, horizon: int) -> list[float]:
    """How many of each shape come to one node that can take it."""
    return [min(MAX_RATE, shape.count / seen * horizon / max(1, shape.slots)) for shape in shapes]


def _sequences(rates: Sequence[float]) -> Ints:
    """Stratified: each shape comes about equally often in every sequence, at the same rate over all of them."""
    draw = np.random.default_rng(SEED)
    members: list[list[int]] = [[] for _ in range(SEQUENCES)]
    steps = np.arange(SEQUENCES + 1)
    for shape, rate in enumerate(rates):
        marks = np.floor(steps * rate + draw.random()).astype(np.int64)
        for sequence, times in zip(draw.permutation(SEQUENCES).tolist(), np.diff(marks).tolist(), strict=True):
            members[sequence] += [shape] * times
    order = np.full((SEQUENCES, max(1, *map(len, members))), NO_SHAPE, dtype=np.int64)
    for sequence, shapes in enumerate(members):
        order[sequence, : len(shapes)] = draw.permutation(np.array(shapes, dtype=np.int64))
    return order
