"""What a service's gateway, mesh or model servers tell at each look, and what is learned of a request's service time.

Nothing is known at first but what the owner says (profile.py). A histogram holds the service times seen, from the
moment a request is taken by a replica to its answer, without the time that it waits. Another one holds the times until
the first token, from the same moment, where they are told. Both are forgotten slowly: a service that changes is learned
anew.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autoscaler.crowding import CLEAR, CLEAR_LATE, Crowding
from autoscaler.latency import ANSWER, FIRST_TOKEN
from autoscaler.profile import Profile

Floats = npt.NDArray[np.float64]

# Upper bounds of the histogram's buckets, s: from 1 ms on each a fifth above the one before, up to three hours.
BUCKETS: Floats = 0.001 * np.power(1.2, np.arange(90), dtype=np.float64)
MIDDLES: Floats = BUCKETS / math.sqrt(1.2)
BOUNDS = tuple(BUCKETS.tolist())
NONE = (0.0,) * len(BUCKETS)
MEMORY = 5000.0  # requests after which what was learned before counts for less than half
LARGEST = 1e12  # of any number that is told; NaN and infinity are not within it
KNOWN = 1000.0  # requests that tell how long the slowest of them take
BEYOND = 3.0  # requests that are slower than a quantile make it known
LEAST_PART = 0.25  # of a replica's slots: however late requests are, it is to run so many
MAX_AT_ONCE = 4096  # requests that one replica may run at once; a larger number is a mistake of what tells it


def counted(seconds: Floats, times: npt.NDArray[np.int64] | None = None) -> tuple[float, ...]:
    """The histogram of these service times, length [buckets]; what is longer than all counts in the last.

    times: how many requests each one stands for, shape of seconds; None: one.
    """
    places = np.minimum(np.searchsorted(BUCKETS, seconds), len(BUCKETS) - 1)
    return tuple(np.bincount(places, weights=times, minlength=len(BUCKETS)).astype(np.float64).tolist())


def spread(bounds: Sequence[float], counts: Sequence[float]) -> tuple[float, ...]:
    """Counts of other buckets in ours. bounds: their upper ends, s, ascending, the last may be infinite.

    Within a bucket requests are taken to be as many at each ratio: coarse buckets stay coarse, but have no gaps.
    """
    out = np.zeros(len(BUCKETS))
    low = BUCKETS[0] / 1.2
    for high, count in zip(bounds, counts, strict=True):
        end = min(max(high, low * 1.0001), BUCKETS[-1])
        if count > 0:
            edges = np.clip(np.log(np.concatenate(([BUCKETS[0] / 1.2], BUCKETS))), math.log(low), math.log(end))
            width = math.log(end) - math.log(low)
            share = np.diff(edges) / width if width > 0 else np.zeros(len(BUCKETS))
            if share.sum() <= 0:
                share[int(np.searchsorted(BUCKETS, end))] = 1.0
            out += count * share / share.sum()
        low = max(low, min(high, BUCKETS[-1]))
    return tuple(out.tolist())


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at a service: what happened in the `seconds` before `at`, cluster clock.

    arrived: requests that came. answered_seconds: sum of the service times of those answered, whose histogram is
    counts, length [buckets]. waiting, running: requests now; widest: most requests that one replica runs now; None: not
    known, which is never 0. first: the histogram of times from a replica's taking a request to its first token, length
    [buckets]; None: not told. is_partial: what counts the requests began anew, came or went, so they may be more.
    """

    at: float
    seconds: float
    arrived: float
    answered_seconds: float
    counts: tuple[float, ...]
    waiting: int | None = None
    running: int | None = None
    widest: int | None = None
    first: tuple[float, ...] | None = None
    is_partial: bool = False

    @property
    def answered(self) -> float:
        """Requests behind counts."""
        return math.fsum(self.counts)

    @property
    def is_sound(self) -> bool:
        """Whether it can be true: numbers of a size that there is, not negative, and of some time."""
        first = self.first or ()
        values = (self.seconds, self.arrived, self.answered_seconds, *self.counts, *first)
        known = [n for n in (self.waiting, self.running, self.widest) if n is not None]
        is_long = len(self.counts) == len(BUCKETS) and (self.first is None or len(first) == len(BUCKETS))
        is_whole = is_long and self.at - self.seconds < self.at and abs(self.at) <= LARGEST  # seconds that can be told
        # A sum with one that is no number is none itself; max and min alone may pass it over.
        return is_whole and sum(values) >= 0 and max(values) <= LARGEST and min((*values, *known)) >= 0


@dataclass(frozen=True, slots=True)
class Signal:
    """What the queue in front of a service tells within a second: requests that wait; requests a second, last 5 s."""

    waiting: int
    rate: float

    @property
    def is_sound(self) -> bool:
        """Whether it can be true."""
        return 0 <= self.waiting <= LARGEST and 0 <= self.rate <= LARGEST


@dataclass(frozen=True, slots=True)
class FirstToken:
    """What is known of the time from a replica's taking a request to its first token: its histogram, and how it grows
    with the requests that share a replica."""

    counts: tuple[float, ...] = NONE
    crowding: Crowding = Crowding()


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of a replica: its slots, and the service time's histogram. All are seen, none is told."""

    counts: tuple[float, ...] = NONE
    seconds: float = 0.0  # sum of the service times behind counts
    slots: int = 1  # most requests that one replica was seen to run at once
    crowding: Crowding = Crowding()
    first: FirstToken = FirstToken()
    profile: Profile | None = None  # what is said of it, until that counts for nothing

    @staticmethod
    def told(profile: Profile | None) -> "Learned":
        """What is known before the first look."""
        return Learned() if profile is None else Learned(slots=profile.slots, profile=profile)

    @property
    def requests(self) -> float:
        """How many requests it is learned from, less what is forgotten; what is said of them counts for some."""
        return math.fsum(self.counts) + self._guessed

    @property
    def mean(self) -> float | None:
        """Mean service time, with one standard error on top while few are known; None before the first answer."""
        known = self.requests
        if known < 1:
            return None
        said = 0.0 if self.profile is None else self._guessed * self.profile.seconds
        mean = (self.seconds + said) / known
        deviation = math.sqrt(max(0.0, float((np.array(self._counts(ANSWER)) * (MIDDLES - mean) ** 2).sum()) / known))
        return mean + deviation / math.sqrt(known)

    def knows(self, of: str) -> bool:
        """Whether the time that an objective of this is about was ever told."""
        return self.requests >= 1 and math.fsum(self._counts(of)) >= 1

    def quantile(self, part: float, of: str = ANSWER) -> float:
        """The service time that this part of the requests does not exceed, within its bucket in proportion.

        of: until the whole answer, or until the first token.
        """
        return self.quantiles((part,), of)[0]

    def quantiles(self, parts: Sequence[float], of: str = ANSWER) -> tuple[float, ...]:
        """The same of several parts."""
        counts = self._counts(of)
        total = np.array(counts).cumsum()
        return tuple(_quantile(part, counts, total) for part in parts)

    def at_once(self, objective: float, availability: float, of: str = ANSWER) -> float:
        """Requests that a replica is to run on average, so that this part of them takes `objective` s at most.

        Waits are not counted. All its slots where requests are not slower for sharing it, as far as is known.
        """
        requests = self.requests if of == ANSWER else math.fsum(self.first.counts)
        if requests < KNOWN:
            return float(self.slots)
        crowding = self.crowding if of == ANSWER else self.first.crowding
        slow = self.quantile(min(availability, 1 - BEYOND / requests), of)
        room = objective / slow - 1  # by what part all may become slower; below 0: have to become faster
        growth = crowding.growth(CLEAR if room >= 0 else CLEAR_LATE)
        if not growth:
            return float(self.slots)
        return min(float(self.slots), max(LEAST_PART * self.slots, 1.0, crowding.mean + room / growth))

    def _counts(self, of: str) -> tuple[float, ...]:
        if of == FIRST_TOKEN:
            return self.first.counts
        if self.profile is None or not (guessed := self._guessed):
            return self.counts
        said = self.profile.counts(BOUNDS)
        return tuple(seen + guessed * part for seen, part in zip(self.counts, said, strict=True))

    @property
    def _guessed(self) -> float:
        """Requests that what is said of them counts for."""
        return 0.0 if self.profile is None else self.profile.weight(math.fsum(self.counts))


def _quantile(part: float, counts: Sequence[float], total: Floats) -> float:
    """What this part does not exceed. total: counts, summed up to each bucket's end."""
    want = part * total[-1]
    place = min(int(total.searchsorted(want)), len(BUCKETS) - 1)
    low = BUCKETS[place - 1] if place else 0.0
    before = total[place - 1] if place else 0.0
    inside = (want - before) / counts[place] if counts[place] else 1.0
    return float(low + inside * (BUCKETS[place] - low))


def learn(known: Learned, scrape: Scrape, since: float, ready: int, objective: float, of: str = ANSWER) -> Learned:
    """What is known after a scrape. since: s since the one before, which may overlap with it; ready: replicas serving.
    of: what the objective is measured on.

    Where it is not told how many requests a replica runs, it follows from Little's law, as long as answers come well
    within the objective: of a service that is overrun the time in it has the wait, and says nothing of the slots.
    """
    part = min(1.0, since / scrape.seconds)
    answered, seconds = part * scrape.answered, part * scrape.answered_seconds
    kept = 0.5 ** (answered / MEMORY)
    counts = tuple((kept * np.array(known.counts) + part * np.array(scrape.counts)).tolist())
    crowding = known.crowding
    if scrape.running is not None and ready > 0 and min(answered, scrape.answered) >= 1:
        crowding = crowding.seen(scrape.running / ready, scrape.answered_seconds / scrape.answered, answered)
    first = _first(known.first, scrape, part, ready)
    after = Learned(counts, known.seconds * kept + seconds, known.slots, crowding, first, known.profile)
    widest = _widest(after, scrape, ready, objective, of)
    if known.profile is not None:
        return _overruled(after, known.profile, widest, is_waiting=bool(scrape.waiting) and scrape.widest is not None)
    slots = min(MAX_AT_ONCE, max(known.slots, widest))
    return Learned(counts, after.seconds, slots, crowding, first)


def _overruled(known: Learned, profile: Profile, widest: int, *, is_waiting: bool) -> Learned:
    """The same as far as what is said of the service still counts: no longer once enough requests were answered, and of
    its slots not once requests wait although no replica runs so many."""
    seen = min(MAX_AT_ONCE, max(profile.seen, widest))
    if not profile.weight(math.fsum(known.counts)):
        return replace(known, slots=seen, profile=None)
    said = seen if is_waiting and widest < profile.slots else profile.slots
    return replace(known, slots=max(seen, said), profile=replace(profile, slots=said, seen=seen))


def _first(known: FirstToken, scrape: Scrape, part: float, ready: int) -> FirstToken:
    """The same of the time until the first token; part: of the scrape that is new."""
    if scrape.first is None:
        return known
    told = math.fsum(scrape.first)
    kept = 0.5 ** (part * told / MEMORY)
    counts = tuple(kept * before + part * now for before, now in zip(known.counts, scrape.first, strict=True))
    crowding = known.crowding
    if scrape.running is not None and ready > 0 and min(part * told, told) >= 1:
        mean = float((np.array(scrape.first) * MIDDLES).sum()) / told
        crowding = crowding.seen(scrape.running / ready, mean, part * told)
    return FirstToken(counts, crowding)


def _widest(known: Learned, scrape: Scrape, ready: int, objective: float, of: str) -> int:
    if scrape.widest is not None:
        return scrape.widest
    if not ready or not known.knows(of) or known.quantile(0.95, of) > 0.7 * objective:
        return 1
    return math.floor(scrape.answered_seconds / scrape.seconds / ready)
