"""What a service's gateway and replicas tell at each scrape, and what is learned from it of a request's service time.

Nothing is known at first. Counts are of a histogram of service times, from the moment a request is taken by a replica
to its answer, without the time that it waits. They are forgotten slowly: a service that changes is learned anew.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Upper bounds of the histogram's buckets, s: from 1 ms on each a fifth above the one before, up to three hours.
BUCKETS: Floats = 0.001 * np.power(1.2, np.arange(90), dtype=np.float64)
MEMORY = 5000.0  # requests after which what was learned before counts for less than half
FEW = 20.0  # requests below which a mean says too little


def counted(seconds: Floats) -> Floats:
    """The histogram of these service times, shape [buckets]; what is longer than all counts in the last."""
    places = np.minimum(np.searchsorted(BUCKETS, seconds), len(BUCKETS) - 1)
    return np.bincount(places, minlength=len(BUCKETS)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at a service. arrived, answered, seconds, busy count since it began.

    seconds: sum of the service times of the requests answered; busy: the same, with what those that run have had.
    waiting, running: requests now; widest: most requests that one replica runs now; on: replicas that exist or are
    being started; ready: those that serve. counts: histogram of the service times of those answered since the scrape
    before, shape [buckets].
    """

    at: float
    arrived: int
    answered: int
    seconds: float
    busy: float
    waiting: int
    running: int
    widest: int
    on: int
    ready: int
    counts: Floats


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of a replica: its slots, and the service time's histogram. All are seen, none is told."""

    counts: Floats = field(default_factory=lambda: np.zeros(len(BUCKETS)))
    seconds: float = 0.0  # sum of the service times behind counts
    slots: int = 1  # most requests that one replica was seen to run at once

    @property
    def requests(self) -> float:
        """How many requests it is learned from, less what is forgotten."""
        return float(self.counts.sum())

    @property
    def mean(self) -> float | None:
        """Mean service time, with one standard error on top while few are known; None before the first answer."""
        known = self.requests
        if known < 1:
            return None
        mean = self.seconds / known
        middles = BUCKETS / math.sqrt(1.2)
        spread = math.sqrt(max(0.0, float((self.counts * (middles - mean) ** 2).sum()) / known))
        return mean + spread / math.sqrt(known)

    def quantile(self, part: float) -> float:
        """The service time that this part of the requests does not exceed, within its bucket in proportion."""
        total = np.cumsum(self.counts)
        want = part * total[-1]
        place = int(np.searchsorted(total, want))
        low = BUCKETS[place - 1] if place else 0.0
        before = total[place - 1] if place else 0.0
        inside = (want - before) / self.counts[place] if self.counts[place] else 1.0
        return float(low + inside * (BUCKETS[place] - low))


def learn(known: Learned, scrape: Scrape, seconds: float) -> Learned:
    """What is known after a scrape; seconds: sum of the service times of those answered since the one before."""
    answered = float(scrape.counts.sum())
    kept = 0.5 ** (answered / MEMORY)
    return Learned(known.counts * kept + scrape.counts, known.seconds * kept + seconds, max(known.slots, scrape.widest))
