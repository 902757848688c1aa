"""The nodes of the simulated cluster while a policy lays out its trainings: who holds how many GPUs of which."""

from typing import Any

from controlplane.benchmarks.training.cluster16 import GPU_TYPE, NODE_GPUS, NODES, Parts
from controlplane.benchmarks.training.rounds import Plan


class Held:
    """free: GPUs of each node; of: GPUs by node, by training."""

    def __init__(self, current: Plan) -> None:
        self.free = [NODE_GPUS] * NODES
        self.of: dict[Any, dict[int, int]] = {}
        for name, parts in current.items():
            for (_, node), gpus in parts:
                self.add(name, node, gpus)

    def add(self, name: Any, node: int, gpus: int = 1) -> None:
        """So many more of this node."""
        mine = self.of.setdefault(name, {})
        mine[node] = mine.get(node, 0) + gpus
        self.free[node] -= gpus

    def remove(self, name: Any, node: int, gpus: int = 1) -> None:
        """So many fewer of this node."""
        mine = self.of[name]
        mine[node] -= gpus
        self.free[node] += gpus
        if not mine[node]:
            del mine[node]
        if not mine:
            del self.of[name]

    def drop(self, name: Any) -> None:
        """It holds nothing any more."""
        for node, gpus in list(self.of.get(name, {}).items()):
            self.remove(name, node, gpus)

    def gpus(self, name: Any) -> int:
        """All that it holds."""
        return sum(self.of.get(name, {}).values())

    def plan(self) -> dict[Any, Parts]:
        """See autoscaler.planner."""
        return {
            name: tuple(((GPU_TYPE, node), gpus) for node, gpus in sorted(mine.items()))
            for name, mine in self.of.items()
        }
