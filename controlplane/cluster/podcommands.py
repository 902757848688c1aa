"""Commands of the port `Cluster` that change running pods, as the simulated cluster carries them out."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from controlplane.cluster.lifecycle import Lifecycle
from controlplane.cluster.world import World
from gpushare.gpu import WHOLE


class PodCommands:
    """A part of `simulated.SimulatedCluster`."""

    _life: Lifecycle

    def _writing(self) -> AbstractContextManager[World]:
        raise NotImplementedError

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """Change a running worker's CPU and memory in place; nothing happens if it has ended."""
        with self._writing() as world:
            for pod in world.there(workload, attempt, [rank]):
                self._life.resize(pod, cpu_milli, memory)

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """Have these replicas use so much of their device while others leave it idle; gone ones are done."""
        with self._writing() as world:
            for pod in world.there(workload, attempt, ranks):
                if 0 < pod.milli < WHOLE:
                    self._life.alter(pod, limit=milli)

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """Have requests come to these replicas of a service (on), or to others only; those that are gone are done."""
        with self._writing() as world:
            for pod in world.there(workload, attempt, ranks):
                self._life.alter(pod, is_asleep=not on)

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """Have these replicas' weights moved to their nodes' memory (on), or back to their devices."""
        with self._writing() as world:
            for pod in world.there(workload, attempt, ranks):
                self._life.offload(pod, weights, on=on)
