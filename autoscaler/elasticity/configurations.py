"""What a job may have of a type of GPU: 1, 2, 4, ... GPUs of one node, or whole nodes; 3 too where all are alike."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoscaler.elasticity.constants import tuning
from autoscaler.elasticity.inputs import Node, Parts

Ints = npt.NDArray[np.int64]
Shape = tuple[int, int, int]  # index of the type, nodes, GPUs

EVERY_COUNT = 8  # nodes: up to here each number of whole nodes is offered
GROWTH = 1.25  # beyond it, the next number is larger by this at least


@dataclass(frozen=True, slots=True)
class Configurations:
    """types: in order of name; kind, nodes, gpus: [configurations], the index of the type and how much of it.

    room, node_gpus: [types], GPUs there are, and those of the usual node.
    """

    types: tuple[str, ...]
    kind: Ints
    nodes: Ints
    gpus: Ints
    room: Ints
    node_gpus: Ints
    index: dict[Shape, int]  # -> its place

    def shape_of(self, where: Parts) -> Shape | None:
        """Of GPUs on nodes; None for what is not on offer, as after a node has gone."""
        if not where or where[0][0][0] not in self.types:
            return None
        shape = self.types.index(where[0][0][0]), len(where), sum(gpus for _, gpus in where)
        return shape if shape in self.index else None

    def index_of(self, where: Parts) -> int | None:
        """The place of the configuration that these GPUs are; None for what is not on offer."""
        shape = self.shape_of(where)
        return None if shape is None else self.index[shape]


def configurations(nodes: Sequence[Node]) -> Configurations:
    """All that these nodes offer, each type from the smallest to the largest."""
    types = tuple(sorted({node.gpu_type for node in nodes if node.gpus}))
    rows: list[tuple[int, int, int]] = []
    room, usual = [], []
    for kind, gpu_type in enumerate(types):
        sizes = [node.gpus for node in nodes if node.gpu_type == gpu_type and node.gpus]
        size = max(Counter(sizes).items(), key=lambda item: (item[1], item[0]))[0]
        largest = max(sizes)
        one = {2**power for power in range(largest.bit_length())} | {size} | set(tuning(len(types)).odd_sizes)
        rows += [(kind, 1, gpus) for gpus in sorted(one) if gpus <= largest]
        rows += [(kind, count, count * size) for count in _counts(sum(gpus >= size for gpus in sizes))]
        room.append(sum(sizes))
        usual.append(size)
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Configurations(
        types, table[:, 0], table[:, 1], table[:, 2], np.array(room, np.int64), np.array(usual, np.int64),
        {row: place for place, row in enumerate(rows)},
    )  # fmt: skip


def _counts(most: int) -> list[int]:
    """Numbers of whole nodes: each up to EVERY_COUNT, then further apart."""
    found = list(range(2, min(most, EVERY_COUNT) + 1))
    while found and found[-1] * GROWTH <= most and found[-1] >= EVERY_COUNT:
        found.append(int(found[-1] * GROWTH))
    return found
