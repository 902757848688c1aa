"""The number of workers that a workload may have."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most workers, both allowed."""

    least: int
    most: int

    def clamp(self, workers: int) -> int:
        """The nearest allowed number."""
        return max(self.least, min(self.most, workers))
