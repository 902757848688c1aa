"""How much work arrives in the demo, and when: Poisson processes whose rates follow the hours of the week.

The demo's LOAD is what is asked in the busiest hours over the cluster's GPUs; the mean over a week is MEAN times that
(hours.py). Services that run from the start on are a part of it (demo.serving_gpus). A trace's LOAD is another figure,
its mean (arrivals.py). A running time here is one in this cluster (demo.TAKES).

Each team has a process for each kind of submission. Its rate is constant within an hour, so an hour's submissions are
a Poisson number of independent uniform moments, drawn from a seed of that hour's own: the process can be looked into
at any hour without the ones before. The world has a past: it starts with what the same processes submitted in the
hours before and what would still run had nothing waited. Nothing is scripted: preemption and reclaim come about because
the busiest hours ask more than there is, and the teams' demand varies by chance.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from controlplane.simulator.worlds.demo import (
    NOMINAL,
    PEOPLE,
    SERVICES,
    STREAMS,
    Served,
    Stream,
    documents,
    gpu_seconds,
    services,
    serving_gpus,
    shortened,
)
from controlplane.simulator.worlds.hours import HOUR, part
from controlplane.simulator.worlds.presets import START, Arrival

T = TypeVar("T")

SPREAD = 0.5  # of the logarithm of running times: the middle two thirds lie within a factor of 1.65
SHORTEST, LONGEST = 120.0, 4 * HOUR  # running times, seconds
PAST = LONGEST  # of arrivals before the start: what came earlier would have ended


@dataclass(frozen=True)
class Demand:
    """The demo's arrivals from `start` on, the beginning of an hour of the cluster's clock; without end."""

    gpus: int  # in the cluster
    load: float
    seed: int
    start: float = START
    served: tuple[Served, ...] = SERVICES

    def __iter__(self) -> Iterator[Arrival]:
        """First the services and what runs already, then what arrives."""
        yield from self.running()
        for _, _, arrival in self._submissions(self.start):
            yield arrival

    def until(self, at: float) -> Iterator[Arrival]:
        """Those up to this moment."""
        return takewhile(lambda arrival: arrival.at <= at, self)

    def running(self) -> tuple[Arrival, ...]:
        """What is submitted at the start itself: the services, and what came in the hours before and still runs."""
        found = [Arrival(self.start, (document,), actor) for document, actor in services(self.served)]
        for at, seconds, arrival in self._submissions(self.start - PAST):
            if at >= self.start:
                break
            if at + seconds > self.start:
                rest = (at + seconds - self.start) / seconds
                left = tuple(shortened(document, rest) for document in arrival.documents)
                found.append(Arrival(self.start, left, arrival.actor))
        return tuple(found)

    def asked(self, at: float) -> float:
        """GPUs that are asked for in the hour of this moment, on average: all but the services."""
        return max(0.0, self.load * self.gpus * part(at) - serving_gpus())

    def _submissions(self, since: float) -> Iterator[tuple[float, float, Arrival]]:
        """(when, for how long, what) from this hour on."""
        streams = (self._stream(team, stream, since) for team in NOMINAL for stream in STREAMS)
        return heapq.merge(*streams, key=lambda submission: submission[0])

    def _stream(self, team: str, stream: Stream, since: float) -> Iterator[tuple[float, float, Arrival]]:
        if self.load * self.gpus <= serving_gpus():  # in no hour is there anything but the services
            return
        owned = sum(NOMINAL[team]) / sum(sum(pair) for pair in NOMINAL.values())
        per_gpu = owned * stream.part / gpu_seconds(stream, mean_seconds(stream.minutes))
        salt = [self.seed, list(NOMINAL).index(team), STREAMS.index(stream)]
        hour = math.floor(since / HOUR)
        while True:
            yield from _hour(team, stream, hour, per_gpu * self.asked(hour * HOUR) * HOUR, [*salt, hour])
            hour += 1


def mean_seconds(minutes: float) -> float:
    """The mean of running times with this median, after the cut of very short and very long ones."""
    normal, middle = NormalDist(), math.log(minutes * 60)
    low, high = ((math.log(bound) - middle) / SPREAD for bound in (SHORTEST, LONGEST))
    inside = math.exp(middle + SPREAD**2 / 2) * (normal.cdf(high - SPREAD) - normal.cdf(low - SPREAD))
    return SHORTEST * normal.cdf(low) + inside + LONGEST * (1 - normal.cdf(high))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The random numbers of one hour of one process, in the order in which they are asked for."""

    random: np.random.Generator

    def one(self, of: Sequence[T]) -> T:
        return of[int(self.random.integers(len(of)))]

    def between(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def running_time(self, minutes: float) -> float:
        drawn = self.random.lognormal(math.log(minutes * 60), SPREAD)
        return float(round(min(max(drawn, SHORTEST), LONGEST)))


def _hour(
    team: str, stream: Stream, hour: int, expected: float, salt: Sequence[int]
) -> Iterator[tuple[float, float, Arrival]]:
    """The submissions of one hour, of which so many are expected."""
    draw = _Drawn(np.random.default_rng(salt))
    moments = sorted(draw.between(0.0, HOUR) for _ in range(int(draw.random.poisson(expected))))
    for number, moment in enumerate(moments, start=1):
        at, seconds = float(math.ceil(hour * HOUR + moment)), draw.running_time(stream.minutes)
        name = f"{stream.name}-{hour - round(START / HOUR)}-{number}"  # hours since the clock's first day
        actor = draw.one(PEOPLE[team])
        yield at, seconds, Arrival(at, documents(stream, team, name, seconds, draw), actor)
