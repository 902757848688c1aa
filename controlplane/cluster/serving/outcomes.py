"""What became of requests, by the time at which they ended."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from autoscaler import observed
from controlplane.cluster.serving.traffic import Floats, Ints

GAVE_UP = -1  # instead of a replica: the client has left
TOLD = 6  # values of Totals that every service has; the others are of those that promise a first token
KEEP_SECONDS = 120.0  # of outcomes one by one: the longest window that may be asked for
# Istio's own bounds, in seconds: what latencies are counted by where nothing else is configured.
BOUNDS = (0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Requests that ended, in any order. ended: when; latency: since they came, seconds; service: since a replica took
    them, seconds; count: requests of each row. promised: since they came, until what the objective is about, seconds;
    first: since a replica took them, until their first token, where it is asked, seconds.

    is_answered is False for those that gave up, found no replica or lost theirs. was_taken: a replica had it.
    """

    ended: Floats
    latency: Floats
    service: Floats
    count: Ints
    is_answered: "np.typing.NDArray[np.bool_]"
    was_taken: "np.typing.NDArray[np.bool_]"
    promised: Floats
    first: Floats


@dataclass(frozen=True, slots=True)
class Window:
    """How a service did over some seconds. Requests belong to the window in which they end.

    requests: those that ended; over: of them, slower than the objective or without an answer; p95_seconds is of those
    that were answered and of what the objective is about, None if none was. arrived: requests that came in the window.
    queue: that wait at its end. duty: part 0..1 of the slots' time in which they were in use.
    """

    requests: int
    over: int
    failed: int
    p95_seconds: float | None
    arrived: int
    queue: int
    duty: float


@dataclass(slots=True)
class Totals:
    """Requests since the service began: answered ones by latency, the others by what they lacked.

    within: answered within each of BOUNDS. refused: no replica was there. failed: gave up, or their replica was lost.
    served: answered ones by the time since a replica took them, in the buckets of autoscaler/observed.py;
    served_micros: the sum of these times, each in whole microseconds, so that it is the same in any order.
    firsts, firsts_served: the same of the time until the first token, since they came and since a replica took them.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    within: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    served: list[float] = field(default_factory=lambda: list(observed.NONE))
    served_micros: int = 0
    firsts: list[float] = field(default_factory=lambda: list(observed.NONE))
    firsts_served: list[float] = field(default_factory=lambda: list(observed.NONE))

    def add(self, outcomes: Outcomes, *, has_first: bool = False) -> None:
        """Count these; has_first: they tell of their first tokens."""
        good, count = outcomes.is_answered, outcomes.count
        self.answered += int(count[good].sum())
        self.refused += int(count[~good & ~outcomes.was_taken].sum())
        self.failed += int(count[~good & outcomes.was_taken].sum())
        places = np.searchsorted(BOUNDS, outcomes.latency[good])
        more = np.cumsum(np.bincount(places, count[good], len(BOUNDS) + 1))[:-1]
        self.within = [before + int(added) for before, added in zip(self.within, more, strict=True)]
        self.served = _more(self.served, outcomes.service[good], count[good])
        self.served_micros += int((np.rint(1e6 * outcomes.service[good]).astype(np.int64) * count[good]).sum())
        if has_first:
            self.firsts = _more(self.firsts, outcomes.promised[good], count[good])
            self.firsts_served = _more(self.firsts_served, outcomes.first[good], count[good])


def _more(before: list[float], seconds: Floats, count: Ints) -> list[float]:
    return list(map(sum, zip(before, observed.counted(seconds, count), strict=True)))


@dataclass(slots=True)
class Recent:
    """The outcomes of the last KEEP_SECONDS."""

    parts: deque[Outcomes] = field(default_factory=deque)

    def add(self, outcomes: Outcomes, now: float) -> None:
        """Take in what ended up to now; forget what is old."""
        if len(outcomes.ended):
            self.parts.append(outcomes)
        while self.parts and self.parts[0].ended.max() < now - KEEP_SECONDS:
            self.parts.popleft()

    def between(self, since: float, until: float) -> Outcomes:
        """Those that ended in [since, until)."""
        parts = [part for part in self.parts if part.ended.max() >= since]
        if not parts:
            return NONE
        ended = np.concatenate([part.ended for part in parts])
        inside = (ended >= since) & (ended < until)
        return Outcomes(
            ended[inside],
            np.concatenate([part.latency for part in parts])[inside],
            np.concatenate([part.service for part in parts])[inside],
            np.concatenate([part.count for part in parts])[inside],
            np.concatenate([part.is_answered for part in parts])[inside],
            np.concatenate([part.was_taken for part in parts])[inside],
            np.concatenate([part.promised for part in parts])[inside],
            np.concatenate([part.first for part in parts])[inside],
        )


def percentile(values: Floats, counts: Ints, part: float) -> float | None:
    """The least value within which this part of the requests lies; None of nothing."""
    if not len(values):
        return None
    order = np.argsort(values)
    reached = np.cumsum(counts[order])
    return float(values[order[int(np.searchsorted(reached, part * reached[-1]))]])


def _none() -> Outcomes:
    empty = np.empty(0)
    return Outcomes(empty, empty, empty, empty.astype(np.int64), empty.astype(bool), empty.astype(bool), empty, empty)


NONE = _none()
