"""What its owner says of a service's requests: a start for the law, until enough of them were measured.

It counts for as many requests as a guess does, and for nothing once ten times as many were answered.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

# Requests that it counts for at first: the mean of so many is known within 16 %, as well as one measured elsewhere.
WEIGHT = 20.0
# Answered requests after which it counts for nothing: their mean is known within 5 %, and ten are beyond the p95.
GONE = 200.0
SLOWER = 2.3  # times the mean, where nothing is said: a lognormal time whose deviation is .7 of its mean
NORMAL_95 = 1.645  # standard deviations that 95 % of normal values lie below


@dataclass(frozen=True, slots=True)
class Profile:
    """Service time of a request without the wait: mean and p95, s; requests that a replica runs at once.

    seen: most requests that one replica was seen to run, whatever is said. p95 at least the mean.
    """

    seconds: float
    p95: float
    slots: int = 1
    seen: int = 1

    def weight(self, answered: float) -> float:
        """Requests that it counts for after so many were answered."""
        return WEIGHT * max(0.0, 1.0 - answered / GONE)

    def counts(self, bounds: tuple[float, ...]) -> tuple[float, ...]:
        """The part of requests in each bucket below these bounds (s, ascending), of a lognormal time; it sums to 1."""
        return _lognormal(self.seconds, self.p95, bounds)


@lru_cache(maxsize=256)
def _lognormal(mean: float, p95: float, bounds: tuple[float, ...]) -> tuple[float, ...]:
    """Sigma follows from the ratio of p95 and mean: exp(1.645 sigma - sigma^2 / 2), which is 3.87 at most."""
    inside = NORMAL_95**2 - 2 * math.log(max(1.0, p95 / mean))
    sigma = max(0.01, NORMAL_95 - math.sqrt(max(0.0, inside)))
    middle = math.log(mean) - sigma**2 / 2
    below = [0.5 * (1 + math.erf((math.log(bound) - middle) / (sigma * math.sqrt(2)))) for bound in bounds[:-1]]
    edges = [0.0, *below, 1.0]
    return tuple(after - before for before, after in zip(edges, edges[1:], strict=False))
