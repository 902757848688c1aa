"""Sia's policy on the cluster of like GPUs: `training/sia.py`, which says what it is, each 60 s, placed so as to stay.

As in Sia's own simulator a training begins with one GPU and may have twice the most that it has had. Sia gives powers
of two of a node's GPUs or whole nodes. There another node alone costs nothing; here it is a start, so what keeps its
size keeps its nodes: others are placed the largest first, on the fullest node with room, and only where none has any do
the smallest that run there make way.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.benchmarks.baselines.held import Held
from controlplane.benchmarks.training.cluster16 import CLUSTER, GPU_TYPE, NODE_GPUS
from controlplane.benchmarks.training.rounds import Plan
from controlplane.benchmarks.training.sia import Sia

Jobs = Sequence[Mapping[str, Any]]


class SiaLike:
    """See above."""

    def __init__(self) -> None:
        self._sia = Sia(CLUSTER)
        self._had: dict[Any, int] = {}

    def plan(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """See cluster16.Policy."""
        told = []
        for job in jobs:
            name, limit = job["id"], job["max_gpus"][GPU_TYPE]
            held = sum(gpus for _, gpus in current.get(name, ()))
            self._had[name] = max(self._had.get(name, 0), held)
            told.append({**job, "max_gpus": {GPU_TYPE: min(limit, max(1, 2 * self._had[name]))}})
        chosen = self._sia.plan(now, told, current)
        return placed({name: sum(gpus for _, gpus in parts) for name, parts in chosen.items()}, current)

    def event(self, now: float, jobs: Jobs, current: Plan) -> Plan:
        """Nothing happens between two rounds."""
        return current


def placed(sizes: Mapping[Any, int], current: Plan) -> Plan:
    """sizes: powers of two of a node's GPUs or whole nodes, no more than there are; what keeps its size stays."""
    held = Held({name: parts for name, parts in current.items() if sum(gpus for _, gpus in parts) == sizes.get(name)})
    left = [name for name in sizes if name not in held.of]
    while left:
        left.sort(key=lambda name: -sizes[name])
        name = left.pop(0)
        share = min(sizes[name], NODE_GPUS)
        for _ in range(sizes[name] // share):
            node = _fullest(held, share)
            if node is None:
                node = _emptiest(held, sizes, share)
                for other in sorted(_residents(held, node), key=lambda one: sizes[one]):
                    if held.free[node] < share:
                        held.drop(other)
                        left.append(other)
            held.add(name, node, share)
    return held.plan()


def _fullest(held: Held, share: int) -> int | None:
    fit = [node for node, free in enumerate(held.free) if free >= share]
    return min(fit, key=lambda node: held.free[node], default=None)


def _emptiest(held: Held, sizes: Mapping[Any, int], share: int) -> int:
    """With most room, of the nodes on which only smaller ones run."""
    movable = [
        node for node in range(len(held.free)) if any(sizes[name] < share for name in _residents(held, node))
        and all(sizes[name] < NODE_GPUS for name in _residents(held, node))
    ]  # fmt: skip
    return max(movable, key=lambda node: held.free[node])


def _residents(held: Held, node: int) -> list[Any]:
    return [name for name, mine in held.of.items() if node in mine]
