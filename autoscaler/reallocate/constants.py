"""The numbers of reallocation, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """Parts are 0..1 unless a unit is said."""

    least_gain: float = 0.10  # of the speed, expected: less is not worth a try
    alike: float = 0.02  # of log gains: of changes so alike the one that takes least
    moves: int = 5  # changes that one training tries
    payback: float = 0.02  # of what remains: what a try may cost
    slow_windows: float = 6.0  # that a change is expected to run before it is rolled back
    window: float = 15.0  # s
    together: tuple[int, ...] = (4, 2, 1)  # most GPUs on one node
    cpu: tuple[float, ...] = (1.5, 2.0, 4.0)  # times the cores of a worker
    servers: tuple[int, ...] = (1, 2, 4)  # parameter servers more or fewer
    workers: tuple[int, ...] = (1, 2, 4)
    batch: tuple[float, ...] = (0.5, 2.0)  # times


DEFAULT = Constants()
