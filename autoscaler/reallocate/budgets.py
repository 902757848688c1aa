"""Three nested budgets that an allocation has to keep: the training's own, its team's and the cluster's."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.throughput.allocation import Allocation

TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Resources:
    """GPUs, cores and GiB of memory."""

    gpus: float = 0.0
    cores: float = 0.0
    memory: float = 0.0

    def over(self, capacity: "Resources") -> float:
        """The dominant share: the largest part of any of them, 0..; infinite of what there is none of."""
        pairs = ((self.gpus, capacity.gpus), (self.cores, capacity.cores), (self.memory, capacity.memory))
        return max(_part(need, there) for need, there in pairs)

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.gpus + other.gpus, self.cores + other.cores, self.memory + other.memory)


class Level(StrEnum):
    """Whose budget it is, from the innermost out."""

    TRAINING = "training"
    TEAM = "team"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Budget:
    """share: the dominant share of the capacity, 0..1; others: what else counts against it.

    A training's own has no others; with a share of 1 nothing but the capacity binds.
    """

    level: Level
    capacity: Resources
    share: float = 1.0
    others: Resources = Resources()

    def keeps(self, allocation: Allocation) -> bool:
        """Whether it holds with this allocation."""
        return (self.others + needs(allocation)).over(self.capacity) <= self.share + TINY


def needs(allocation: Allocation) -> Resources:
    """Of all workers and parameter servers."""
    memory = allocation.workers * allocation.memory + allocation.servers * allocation.server_memory
    return Resources(allocation.total, allocation.cores, memory)


def broken(budgets: Iterable[Budget], allocation: Allocation) -> Level | None:
    """The level of the first that does not hold; None if all do."""
    return next((budget.level for budget in budgets if not budget.keeps(allocation)), None)


def _part(need: float, there: float) -> float:
    if need <= 0:
        return 0.0
    return need / there if there > 0 else float("inf")
