"""What one replica can do, learnt from what was measured: an M/D/c queue fitted to rates and latencies.

p95 = s + tail, with s the time of one request and c requests at once per replica. The tail of M/D/c is taken as
exponential with half of M/M/c's mean wait; the chance to wait is Sakasegawa's (1977). s is the least latency seen. c is
the least number that explains every measured latency: with little load seen it is small, so that what a replica can do
is rather under- than overestimated. Where only a busy service was seen, s is too large and the model too hopeful;
hence `slow_rate`, which is no model.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoscaler.metrics import Sample

MAX_AT_ONCE = 256
TOLERANCE = 1.1  # a model may say this much more than was measured: scrapes and histograms are coarse
FULLEST = 0.98  # of capacity, where the formula still says something
HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: seconds of one request alone, requests at once."""

    seconds: float
    at_once: int

    def p95_seconds(self, rate: float, replicas: int) -> float:
        """Latency when this rate comes to so many replicas; infinite beyond what they can do."""
        servers = replicas * self.at_once
        used = rate * self.seconds / servers if servers else math.inf
        if used >= FULLEST:
            return math.inf
        chance = used ** (math.sqrt(2 * (servers + 1)) - 1) if used > 0 else 0.0
        mean = 0.5 * self.seconds / servers / (1 - used)
        return self.seconds + (mean * math.log(chance / 0.05) if chance > 0.05 else 0.0)

    def most(self, replicas: int, p95_seconds: float) -> float:
        """The highest rate that so many replicas take within this latency; 0 if one request alone takes longer."""
        if replicas <= 0 or self.seconds > p95_seconds:
            return 0.0
        low, high = 0.0, replicas * self.at_once / self.seconds
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.p95_seconds(middle, replicas) <= p95_seconds else (low, middle)
        return low

    def needed(self, rate: float, p95_seconds: float, most: int) -> int:
        """The least replicas that take this rate within this latency; `most` if no number below it does."""
        for replicas in range(1, most):
            if self.p95_seconds(rate, replicas) <= p95_seconds:
                return replicas
        return most


def learn(samples: Iterable[Sample], slowest: float) -> Replica | None:
    """What these samples say of one replica; None when they say nothing.

    Those slower than `slowest` seconds or with a standing queue are left out: replicas that are overrun show what
    they cannot do, not what they can.
    """
    known = [
        (s.requests_per_second, s.replicas, s.p95_seconds)
        for s in samples
        if s.requests_per_second is not None
        and s.replicas
        and s.p95_seconds is not None
        and 0 < s.p95_seconds <= slowest
        and not s.queue
    ]
    if not known:
        return None
    seconds = min(p95 for _, _, p95 in known)
    at_once = 1
    for rate, replicas, p95 in known:
        while at_once < MAX_AT_ONCE and Replica(seconds, at_once).p95_seconds(rate, replicas) > TOLERANCE * p95:
            at_once += 1
    return Replica(seconds, at_once)


def slow_rate(samples: Sequence[Sample], p95_seconds: float) -> float | None:
    """The least rate of one replica at which latency was above this; None if it never was.

    Samples in which a queue got shorter are left out: they are slow because of the load before them.
    """
    slow = []
    queue = 0
    for sample in samples:
        rate, rises = sample.rate_per_replica, (sample.queue or 0) >= queue
        queue = sample.queue or 0
        if rises and rate is not None and sample.p95_seconds is not None and sample.p95_seconds > p95_seconds:
            slow.append(rate)
    return min(slow, default=None)
