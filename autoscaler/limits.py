"""The limit of a service's replicas on shared GPUs, which may be raised: what it may be, and what is remembered of it.

All in milli-GPU, 1000 = one device. All replicas of a service have one limit.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What the limit may be now.

    least, most: of the job file, 0 < least <= most. room: of each replica's device what is not guaranteed to others,
    the least of them. advisory: a node with a replica where nothing holds a share to its limit; empty: there is none.
    """

    least: int
    most: int
    room: int
    advisory: str = ""

    @property
    def cap(self) -> int:
        """The most that it may be now: never below what the job file gives."""
        return self.least if self.advisory else max(self.least, min(self.most, self.room))


@dataclass(frozen=True, slots=True)
class Tried:
    """What is remembered of a service whose limit may be raised.

    limit: with which its service times are learned. asked: the last looks, (when, replicas before rounding, limit).
    before: the limit before the last change, and the mean service time with it. effect: the exponent e of service times
    that fall as limit ** -e, 0..1; is_known: whether it was seen, else it is a guess.
    """

    limit: int
    asked: tuple[tuple[float, float, int], ...] = ()
    before: tuple[int, float] | None = None
    effect: float = 1.0
    is_known: bool = False
