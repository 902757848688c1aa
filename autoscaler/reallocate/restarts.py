"""How long a training stands still for a restart, learned from those that it and others like it had.

A restart has two parts: from being told to leave until its last worker is gone, and from having its places until its
first step. The time in between, in which it waits for places, is the queue's and in neither. Each part is the median of
the logarithms of what was seen, where a start value counts as one observation: so a single outlier among few moves the
result half the way to itself at most, and among several not at all. docs/reallocation.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

NEWEST = 5  # restarts that count: a program changes
FEW = 3  # of its own; with fewer, those of trainings like it fill up


@dataclass(frozen=True, slots=True)
class Part:
    """s: what it is taken to be before anything was seen, and its bounds."""

    start: float
    least: float
    most: float


LEAVE, BEGIN = Part(20.0, 1.0, 900.0), Part(100.0, 5.0, 1800.0)


@dataclass(frozen=True, slots=True)
class Restart:
    """One that happened, s. leave: None where it was not told to leave, as after a failure."""

    leave: float | None
    begin: float


@dataclass(frozen=True, slots=True)
class Learned:
    """What a restart is taken to cost, s; own, lent: how many it was learned from."""

    leave: float
    begin: float
    own: int = 0
    lent: int = 0

    @property
    def seconds(self) -> float:
        """Both parts."""
        return self.leave + self.begin


def learned(own: Sequence[Restart], lent: Sequence[Restart] = ()) -> Learned:
    """What a restart of a training costs, by its own and those of others like it, each the newest first."""
    mine = list(own[:NEWEST])
    others = list(lent[: NEWEST - len(mine)]) if len(mine) < FEW else []
    seen = [*mine, *others]
    leave = _middle(LEAVE, [one.leave for one in seen if one.leave is not None])
    return Learned(leave, _middle(BEGIN, [one.begin for one in seen]), len(mine), len(others))


def _middle(part: Part, seen: Sequence[float]) -> float:
    bounded = [min(max(one, part.least), part.most) for one in seen]
    return exp(median(log(one) for one in (part.start, *bounded)))
