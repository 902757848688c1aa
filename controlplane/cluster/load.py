"""Requests to a simulated service, and how fast it answers: a day's curve with bursts, and an M/D/c-like queue.

Everything is a function of the time, the service's id and how many replicas ran when. So it does not matter who asks,
how often, or when.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.cluster import draws

DAY = 86_400.0
BURST_SECONDS = 300.0  # a burst lasts that long
NOISE_SECONDS, NOISE = 10.0, 0.05  # the rate of each ten seconds is off by about that part
STEP_SECONDS = 5.0  # of the queue's integration
WARM_SECONDS = 120.0  # before a window, so that a queue that stands has been built
FULLEST = 0.98  # of capacity in the waiting formula; beyond it the queue that builds up says how long one waits
PATIENCE = 30.0  # seconds until a client gives up: bounds the queue


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second over time. amplitude and burst_part are parts, burst is a factor, period seconds.

    rollout: seconds from the first replica on in which the service gets its traffic, step by step.
    """

    key: str
    base: float
    amplitude: float = 0.5
    period: float = DAY
    burst: float = 1.6
    burst_part: float = 0.02
    rollout: float = 0.0
    peak: float | None = None  # hours from the beginning of a period to its most requests; None: drawn

    @staticmethod
    def read(uid: str, seed: int, base: float, given: Mapping[str, Any]) -> "Rate":
        """The rate of a service: what is given, else a day's curve around the profile's base."""
        return Rate(
            key=f"{seed}:{uid}",
            base=float(given.get("base", base)),
            amplitude=float(given.get("amplitude", 0.5)),
            period=float(given.get("period", DAY)),
            burst=float(given.get("burst", 1.6)),
            burst_part=float(given.get("burst_part", 0.02)),
            rollout=float(given.get("rollout", 0.0)),
            peak=None if given.get("peak") is None else float(given["peak"]),
        )

    def at(self, at: float) -> float:
        """Requests per second at this time."""
        phase = draws.uniform(self.key, "phase") if self.peak is None else 0.25 - self.peak * 3600.0 / self.period
        wave = 1.0 + self.amplitude * math.sin(2 * math.pi * (at / self.period + phase))
        is_burst = draws.uniform(self.key, "burst", at // BURST_SECONDS) < self.burst_part
        noise = 1.0 + NOISE * draws.normal(self.key, "noise", at // NOISE_SECONDS)
        return max(0.0, self.base * wave * (self.burst if is_burst else 1.0) * noise)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What serves from `at` on: replicas, requests at once in all of them, seconds of one request."""

    at: float
    replicas: int
    servers: int
    seconds: float

    @property
    def rate(self) -> float:
        """Most requests per second."""
        return self.servers / self.seconds if self.servers else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """How a service did over some seconds. p95_seconds is None when nothing was answered."""

    requests: int
    over: int
    requests_per_second: float
    p95_seconds: float | None
    queue: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of the requests of some time, as expected numbers: `within` counts by bound, seconds."""

    requests: float
    within: tuple[float, ...]


def answered(rate: Rate, history: Sequence[Capacity], since: float, until: float, bounds: Sequence[float]) -> Answered:
    """The requests that replicas took in [since, until), and how many were answered within each bound.

    Times that follow each other add up, wherever they are cut. Requests that found no replica are nobody's.
    """
    taken = 0.0
    within = [0.0] * len(bounds)
    first = math.floor((since - WARM_SECONDS) / STEP_SECONDS) * STEP_SECONDS
    for at, arriving, serving, queue in _flow(rate, history, first, until):
        seconds = min(until, at + STEP_SECONDS) - max(since, at)
        if seconds <= 0 or not serving.servers:
            continue
        count = arriving * seconds
        taken += count
        for number, bound in enumerate(bounds):
            within[number] += count * (1.0 - over_part(arriving, serving, queue, bound))
    return Answered(taken, tuple(within))


def window(rate: Rate, history: Sequence[Capacity], until: float, seconds: float, objective: float | None) -> Window:
    """What the last `seconds` before `until` were like; history in order of time, from the service's first replica."""
    queue, total, over = 0.0, 0.0, 0.0
    latencies: list[tuple[float, float]] = []  # (p95 of a step, requests in it)
    for at, arriving, serving, queue in _flow(rate, history, until - seconds - WARM_SECONDS, until):
        if at < until - seconds:
            continue
        count = arriving * STEP_SECONDS
        total += count
        over += count * over_part(arriving, serving, queue, objective)
        if serving.servers:
            latencies.append((p95_seconds(arriving, serving, queue), count))
    return Window(round(total), round(over), total / seconds, _percentile(latencies, 0.95), round(queue))


def _flow(
    rate: Rate, history: Sequence[Capacity], first: float, until: float
) -> Iterator[tuple[float, float, Capacity, float]]:
    """(start, requests per second, what serves, queue at the end) of each step of the time in which anybody asked."""
    queue = 0.0
    for number in range(math.ceil((until - first) / STEP_SECONDS)):
        at = first + number * STEP_SECONDS
        serving, arriving = _serving(history, at), rate.at(at)
        if serving is None:  # nobody had asked for the service yet
            continue
        if rate.rollout:
            arriving *= min(1.0, (at - history[0].at) / rate.rollout)
        queue = min(max(0.0, queue + (arriving - serving.rate) * STEP_SECONDS), max(serving.rate, arriving) * PATIENCE)
        yield at, arriving, serving, queue


def p95_seconds(arriving: float, serving: Capacity, queue: float = 0.0) -> float:
    """The 95th percentile of the latency at a constant rate, with this many requests standing in the queue."""
    chance, mean = _waiting(arriving, serving)
    tail = mean * math.log(chance / 0.05) if chance > 0.05 else 0.0
    return serving.seconds + tail + queue / serving.rate


def over_part(arriving: float, serving: Capacity, queue: float, objective: float | None) -> float:
    """The part of requests slower than the objective, or refused because nothing serves."""
    if not serving.servers:
        return 1.0
    if objective is None:
        return 0.0
    slack = objective - serving.seconds - queue / serving.rate
    if slack <= 0:
        return 1.0
    chance, mean = _waiting(arriving, serving)
    return chance * math.exp(-slack / mean)


def _waiting(arriving: float, serving: Capacity) -> tuple[float, float]:
    """(chance to wait, mean wait of those who do) of M/D/c: half of M/M/c's wait; the chance by Sakasegawa (1977)."""
    used = min(FULLEST, arriving / serving.rate)
    chance = used ** (math.sqrt(2 * (serving.servers + 1)) - 1) if used > 0 else 0.0
    return chance, 0.5 / (serving.rate * (1 - used))


def _serving(history: Iterable[Capacity], at: float) -> Capacity | None:
    last = None
    for capacity in history:
        if capacity.at > at:
            break
        last = capacity
    return last


def _percentile(weighted: list[tuple[float, float]], part: float) -> float | None:
    """The value below which `part` of the weight lies."""
    weighted = sorted(weighted)
    total, reached = sum(weight for _, weight in weighted), 0.0
    for value, weight in weighted:
        reached += weight
        if reached >= part * total:
            return value
    return None
