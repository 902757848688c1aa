"""The requests that come to a simulated service: when each arrives, and how much work it is.

Time is cut into blocks of BLOCK_SECONDS. The requests of a block come from random numbers whose key is the service's
and whose counter is the block's number (Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
So the same seed gives the same requests in any process, in any order of calls, after any restart. numpy keeps Philox'
numbers, but not what it makes of them (NEP 19): another version of numpy may give other requests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from controlplane.cluster import draws

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAY = 86_400.0
BLOCK_SECONDS = 30.0
STEP_SECONDS = 5.0  # for so long the rate is taken as constant
BURST_SECONDS = 300.0  # a burst lasts that long
FIRST_PART = 0.2  # of its service time: after it the first token of a request is there, where nothing says more
NOISE_SECONDS, NOISE = 10.0, 0.05  # the rate of each ten seconds is off by about that part
# Above so many requests a second, neighbours are counted as one group; each group is served by as many slots together.
MAX_PER_SECOND = 2_000.0
MIN_BUSY = 32.0  # groups in service at the base rate: with fewer of them, chance would count for more than it does


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second over time. amplitude and burst_part are parts, burst is a factor, period seconds.

    rollout: seconds from the first replica on in which the service gets its traffic, step by step. peak: hours from the
    beginning of a period to its most requests; None: drawn.
    """

    key: str
    base: float
    amplitude: float = 0.5
    period: float = DAY
    burst: float = 1.6
    burst_part: float = 0.02
    rollout: float = 0.0
    noise: float = NOISE
    peak: float | None = None

    @staticmethod
    def of_spec(uid: str, seed: int, base: float, given: Mapping[str, Any]) -> "Rate":
        """The rate of a service: what is given, else a day's curve around the profile's base."""
        names = ("base", "amplitude", "period", "burst", "burst_part", "rollout", "noise", "peak")
        return Rate(f"{seed}:{uid}", **({"base": base} | {n: float(given[n]) for n in names if n in given}))

    def at(self, at: float) -> float:
        """Requests per second at this time."""
        wave = burst = noise = 1.0
        if self.amplitude:
            phase = draws.uniform(self.key, "phase") if self.peak is None else 0.25 - self.peak * 3600.0 / self.period
            wave += self.amplitude * math.sin(2 * math.pi * (at / self.period + phase))
        if self.burst_part and draws.uniform(self.key, "burst", at // BURST_SECONDS) < self.burst_part:
            burst = self.burst
        if self.noise:
            noise += self.noise * draws.normal(self.key, "noise", at // NOISE_SECONDS)
        return max(0.0, self.base * wave * burst * noise)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work a request is, in parts of the mean.

    deviation: standard deviation of a lognormal size, in means. tokens: a prompt (half of the mean, lognormal with
    this deviation) and generated tokens (geometric, so many in the mean).
    """

    kind: Literal["fixed", "exponential", "lognormal", "tokens"] = "fixed"
    deviation: float = 0.7
    tokens: int = 200

    def draw(self, random: np.random.Generator, count: int) -> Floats:
        """So many sizes; their mean is 1."""
        return self.parted(random, count)[0]

    def parted(self, random: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """So many sizes, and the part (0..1) of each until its first token: with tokens, the prompt's."""
        settled = np.full(count, FIRST_PART)
        match self.kind:
            case "fixed":
                return np.ones(count), settled
            case "exponential":
                return random.standard_exponential(count), settled
            case "lognormal":
                return _lognormal(random, self.deviation, count), settled
            case "tokens":
                generated = random.geometric(1 / self.tokens, count) / self.tokens
                prompt = 0.5 * _lognormal(random, self.deviation, count)
                size = prompt + 0.5 * generated
                return size, prompt / size


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The requests of one block, or groups of them, by time.

    at: arrival, seconds. size: work of a request, in means. hold: work for which it takes its slot; differs from size
    for groups only. count: requests that the row stands for. first: part of its service time (0..1) after which its
    first token is there.
    """

    at: Floats
    size: Floats
    hold: Floats
    count: Ints
    first: Floats


class Course(Protocol):
    """Requests per second over time: Rate, or another. key, rollout: as in Rate."""

    @property
    def key(self) -> str:
        """Of its random numbers."""

    @property
    def rollout(self) -> float:
        """Seconds."""

    def at(self, at: float) -> float:
        """Requests per second at this time."""


class Traffic(Protocol):
    """Where requests come from. group: how many requests a row of a block stands for, at most."""

    @property
    def group(self) -> int:
        """Requests in a group."""

    def block(self, number: int) -> Block:
        """The requests of [number, number + 1) x BLOCK_SECONDS."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Poisson arrivals at a rate that changes. since: when the service's first replica ran; nothing comes before.

    With group = g, a row is g neighbouring requests: it arrives with the last of them, and takes its slots for the mean
    of their sizes, whose deviation is 1 / sqrt(g) of one request's. Both the queue that stands when the service is
    overrun and, in heavy traffic, the one that chance builds are then those of single requests (see docs/services.md).
    """

    rate: Course
    sizes: Sizes = Sizes()
    since: float = 0.0
    group: int = 1

    def block(self, number: int) -> Block:
        """The requests of a block."""
        return _drawn(self, number)

    def at(self, at: float) -> float:
        """Requests per second expected at this time."""
        if at < self.since:
            return 0.0
        part = min(1.0, (at - self.since) / self.rate.rollout) if self.rate.rollout else 1.0
        return part * self.rate.at(at)


class Recorded:
    """Requests of a list: arrival times, ascending, and sizes in means (none: all are 1); firsts: the part of each
    service time after which the first token is there (none: all are FIRST_PART).

    Raises ValueError when times do not ascend, or sizes are not as many.
    """

    group = 1

    def __init__(self, times: Sequence[float], sizes: Sequence[float] = (), firsts: Sequence[float] = ()) -> None:
        self._at = np.array(times, dtype=np.float64)
        self._sizes = np.array(sizes, dtype=np.float64) if len(sizes) else np.ones(len(times))
        self._firsts = np.array(firsts, dtype=np.float64) if len(firsts) else np.full(len(times), FIRST_PART)
        if len(self._sizes) != len(self._at):
            raise ValueError(f"sizes: {len(sizes)} are given for {len(times)} times. Give one for each.")
        if len(self._firsts) != len(self._at):
            raise ValueError(f"firsts: {len(firsts)} are given for {len(times)} times. Give one for each.")
        if (np.diff(self._at) < 0).any():
            raise ValueError("times: they do not ascend. Sort the requests by their arrival.")

    def block(self, number: int) -> Block:
        """The requests of a block."""
        first, last = np.searchsorted(self._at, [number * BLOCK_SECONDS, (number + 1) * BLOCK_SECONDS])
        sizes = self._sizes[first:last]
        count = np.ones(last - first, dtype=np.int64)
        return Block(self._at[first:last], sizes, sizes, count, self._firsts[first:last])


def group(requests_per_second: float, seconds: float) -> int:
    """How many requests of a service with this base rate and mean request time count as one; 1 for all but huge."""
    return max(1, int(min(requests_per_second / MAX_PER_SECOND, requests_per_second * seconds / MIN_BUSY)))


@lru_cache(maxsize=64)  # several readers in a process ask for the same newest blocks
def _drawn(traffic: Drawn, number: int) -> Block:
    start, count = number * BLOCK_SECONDS, round(BLOCK_SECONDS / STEP_SECONDS)
    edges = start + STEP_SECONDS * np.arange(count + 1)
    expected = [traffic.at(float(at)) * STEP_SECONDS for at in edges[:-1]]
    mass = np.concatenate(([0.0], np.cumsum(expected)))
    random = np.random.Generator(np.random.Philox(key=_key(traffic.rate.key), counter=[0, 0, 0, number]))
    requests = int(random.poisson(mass[-1]))
    rows = -(-requests // traffic.group)
    if not rows:
        return Block(np.empty(0), np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0))
    # Given their number, Poisson arrivals are uniform; sums of exponential gaps are so without sorting.
    if traffic.group > 1:
        places = np.cumsum(random.standard_gamma(traffic.group, rows + 1))
    else:
        places = np.cumsum(random.standard_exponential(rows + 1))
    at = np.interp(places[:-1] * (mass[-1] / places[-1]), mass, edges)
    size, first = traffic.sizes.parted(random, rows)
    counts = np.full(rows, traffic.group, dtype=np.int64)
    counts[-1] = requests - traffic.group * (rows - 1)
    hold = 1.0 + (size - 1.0) / math.sqrt(traffic.group) if traffic.group > 1 else size
    return Block(at, size, hold, counts, first)


def _key(text: str) -> Sequence[int]:
    digest = blake2b(text.encode(), digest_size=16).digest()
    return [int.from_bytes(digest[:8]), int.from_bytes(digest[8:])]


def _lognormal(random: np.random.Generator, deviation: float, count: int) -> Floats:
    sigma = math.sqrt(math.log(1 + deviation**2))
    return np.exp(sigma * random.standard_normal(count) - sigma**2 / 2)
