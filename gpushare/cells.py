"""KubeShare 2.0's scores of a node: by the cells (GPUs) on it, for work that fills gaps and for work with a guarantee.

Opportunistic work packs: onto strong models, used cells, and nodes with few cells free. Work with a guarantee goes to
strong models and idle cells, near the cells of its group. The higher the score the better. A cell is where its path
leads in the tree of the topology: node, then a number on each level below, down to the GPU.
Source: KubeShare 2.0, the released code's plugin (`pkg/scheduler/score.go`), as its comments mean it. Ours are: the
part of free cells is exact (theirs is an integer, so 0 unless all are free); a distance counts against a node (theirs
adds it), on all levels of the path (theirs on the last one); work without GPUs is sent away from nodes that have some
(theirs to them). No policy uses these scores: where a share goes is decided in `gpushare.packing` and
`scheduler.placement`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpushare.gpu import WHOLE

PERCENT = 100
OTHER_NODE = 100  # added to a distance, farther than any two cells of a node


class Cell(NamedTuple):
    """One GPU. path: node, then its number on each level; priority: computing power of its model; free: milli-GPU."""

    path: tuple[int, ...]
    priority: int
    free: int


def opportunistic(cells: Sequence[Cell]) -> float:
    """The score of a node for work without a guarantee: mean of model and use, less the part of its cells that is free.

    0 for a node without cells, as `guaranteed`.
    """
    if not cells:
        return 0.0
    total = sum(cell.priority + PERCENT * _used(cell) for cell in cells)
    return (total - PERCENT * len(idle(cells))) / len(cells)


def guaranteed(cells: Sequence[Cell], group: Sequence[tuple[int, ...]] = ()) -> float:
    """The score of a node for work with a guarantee: mean of model, less use, less how far its group's cells are.

    group: paths of the cells that others of its group have.
    """
    if not cells:
        return 0.0
    return sum(cell.priority - PERCENT * _used(cell) - PERCENT * _far(cell, group) for cell in cells) / len(cells)


def without_gpus(cells: Sequence[Cell]) -> float:
    """The score of a node for work that asks no GPU: those with GPUs are kept for work that does."""
    return 0.0 if cells else float(PERCENT)


def distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How far two cells are from each other: the differences on all levels below the node, and 100 to another node.

    A level that only one of them has counts as number 0.
    """
    depth = max(len(one), len(other))
    mine, theirs = (path + (0,) * (depth - len(path)) for path in (one, other))
    within = sum(abs(a - b) for a, b in zip(mine[1:], theirs[1:], strict=True))
    return within + (OTHER_NODE if mine[0] != theirs[0] else 0)


def idle(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that whole GPUs may be taken from: a request of several takes nothing else."""
    return [cell for cell in cells if cell.free == WHOLE]


def best(scores: Sequence[float]) -> int | None:
    """The node with the highest score, of equal ones the first; None if there is none."""
    return max(range(len(scores)), key=lambda node: (scores[node], -node)) if scores else None


def _used(cell: Cell) -> float:
    return (WHOLE - cell.free) / WHOLE


def _far(cell: Cell, group: Sequence[tuple[int, ...]]) -> float:
    return sum(distance(cell.path, other) for other in group) / len(group) if group else 0.0
