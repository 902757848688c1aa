"""What one seed draws of the mix: trainings and when they come, the service's requests, how long pods take to start.

The draws depend on the seed and on nothing that a policy does, so all policies meet the same ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from controlplane.benchmarks.mix.speeds import AllReduce, ParameterServer, Speed, all_reduces
from controlplane.benchmarks.slo.traces import Floats
from controlplane.benchmarks.training.tables import Application
from controlplane.cluster import draws, physics
from scheduler.model.workload import Kind

SETS = ("ps", "ar", "mixed")
WARM = 900.0  # s that the service and the notebooks run before the first training comes
WAVES, OF_WAVE, WAVE_SECONDS = 3, 4, 300.0  # trainings come in waves, so many s apart
ELASTIC = (4, 1, 4)  # workers that DRAGON's own manifests ask for where they are elastic, by wave
WORK, WORK_SPREAD = 3000.0, 0.25  # s on 2 workers of one node, and the part by which trainings differ
ERROR = 0.1  # standard deviation of the logarithm of what a user expects over what is true

SLOTS, REQUEST, REQUEST_SIGMA = (
    10,
    0.1,
    0.18,
)  # requests at once in a replica; s of one: mean, and that of the logarithm
OBJECTIVE = 0.22  # s within which 95 % of the requests are to be answered, as the owner of the service states it
LATE = 0.1  # s: a request that waits longer is late
USE = 0.8  # of what a replica can do: with so much of it in use, replicas are as many as are needed
NEED, SWING, DAY = 2.4, 1.4, 14_400.0  # replicas needed: mean, amplitude and period of the "day", s
NEED_LEAST, NEED_MOST = 0.3, 6.0
BURST_EACH, RISE = 1800.0, 30.0  # s between bursts, and until one is at its height
BURST_HEIGHT, BURST_LENGTH = (1.5, 2.5), (120.0, 300.0)  # replicas needed more, s
NODE_GPUS = 4
CHUNK = 1800.0  # s of requests that are drawn at once


@dataclass(frozen=True, slots=True)
class Training:
    """workers: as asked for; work: s on 2 workers of one node; expected: s, what its user says of it.

    estimate: (nodes, GPUs) -> speed, restart_estimate: s; what a policy may be told of it, with an error.
    elastic: workers that it asks for where it is elastic; 0: as many as elsewhere.
    """

    name: str
    at: float
    workers: int
    work: float
    expected: float
    speed: Speed
    estimate: Mapping[tuple[int, int], float] = field(default_factory=dict)
    restart_estimate: float = 0.0
    elastic: int = 0


@dataclass(frozen=True, slots=True)
class Burst:
    """at its height from `at + rise` to `at + length`; height in replicas."""

    at: float
    length: float
    height: float


@dataclass(frozen=True, slots=True)
class Service:
    """The load of the service: a "day" of four hours with a burst each half hour. rise: s; 0: bursts are sudden.

    times: as many requests as this, day and bursts alike.
    """

    seed: int
    phase: float
    rise: float = RISE
    times: int = 1

    def need(self, at: Floats) -> Floats:
        """Replicas that are needed at these times."""
        day = NEED + SWING * np.sin(2 * np.pi * at / DAY + self.phase)
        return self.times * np.clip(day + self._bursts(at), NEED_LEAST, NEED_MOST)

    def _bursts(self, at: Floats) -> Floats:
        found = np.zeros_like(at)
        first, last = (int(at.min() // BURST_EACH), int(at.max() // BURST_EACH)) if len(at) else (0, -1)
        for number in range(first, last + 1):
            one = self.burst(number)
            up = (at - one.at) / self.rise if self.rise else (at >= one.at).astype(np.float64)
            down = (one.at + one.length - at) / self.rise if self.rise else (at < one.at + one.length).astype(float)
            found += one.height * np.clip(np.minimum(up, down), 0.0, 1.0)
        return found

    def burst(self, number: int) -> Burst:
        """The one of each half hour, which lies within it."""
        length, height, begin = np.random.default_rng([self.seed, 11, number]).random(3)
        seconds = BURST_LENGTH[0] + length * (BURST_LENGTH[1] - BURST_LENGTH[0])
        at = number * BURST_EACH + begin * (BURST_EACH - seconds)
        return Burst(at, seconds, BURST_HEIGHT[0] + height * (BURST_HEIGHT[1] - BURST_HEIGHT[0]))

    def requests(self, chunk: int) -> tuple[Floats, Floats]:
        """When requests come in this chunk of time, ascending, and how long each takes, s."""
        rng, begin = np.random.default_rng([self.seed, 12, chunk]), chunk * CHUNK
        per_second = USE * SLOTS / REQUEST
        most = NEED_MOST * self.times * per_second
        at = begin + np.sort(rng.random(rng.poisson(most * CHUNK))) * CHUNK
        at = at[rng.random(len(at)) * NEED_MOST * self.times < self.need(at)]
        sizes = np.exp(REQUEST_SIGMA * rng.standard_normal(len(at)) - REQUEST_SIGMA**2 / 2)
        return at, REQUEST * sizes


@dataclass(frozen=True, slots=True)
class World:
    """notebooks: how many; replicas: that the service has where nothing scales it, 0: there is no service.

    times: of everything, nodes included, there is so many times as much.
    """

    seed: int
    trainings: tuple[Training, ...]
    service: Service
    notebooks: int
    replicas: int
    times: int = 1

    def start_seconds(self, kind: Kind, pod: str) -> float:
        """From a pod's place to its running: 5 to 60 s, as in the simulated cluster."""
        return physics.start_seconds(kind, self.seed, pod)


def world(
    which: str,
    seed: int,
    apps: dict[str, Application],
    crowded: int = 12,
    rise: float = RISE,
    wave_seconds: float = WAVE_SECONDS,
    *,
    times: int = 1,
    work: float = 1.0,
) -> World:
    """The mix of one set and seed. Raises ValueError.

    crowded: GPUs of 16 that whole notebooks and four replicas hold; times: see `World`; work: over WORK.
    """
    if which not in SETS:
        raise ValueError(f"set: {which!r} is none of {', '.join(SETS)}")
    if not 4 <= crowded <= 14:
        raise ValueError(f"crowded: {crowded} GPUs, must be 4 to 14 of 16")
    of_wave = OF_WAVE * times
    count = WAVES * of_wave
    rng = np.random.default_rng([seed, 1])
    speeds = _speeds(which, rng, count, all_reduces(apps))
    seconds = WORK * work * rng.uniform(1 - WORK_SPREAD, 1 + WORK_SPREAD, count)
    errors = np.exp(ERROR * rng.standard_normal(count))
    trainings = tuple(
        _training(n, WARM + wave_seconds * (n // of_wave), 2, seconds[n], seconds[n] * errors[n], speeds[n], rng)
        for n in range(count)
    )
    return World(seed, trainings, _service(seed, rise, times), (crowded - 4) * times, 4 * times, times)


def poisson_world(
    which: str,
    seed: int,
    apps: dict[str, Application],
    load: float,
    crowded: int = 12,
    count: int = 24,
    *,
    work: float = 1.0,
) -> World:
    """Trainings of 1, 2 or 4 workers that come at random; load: their work over what the GPUs left by others can do.

    work: over the usual.
    """
    length = WORK * work
    rng = np.random.default_rng([seed, 2])
    speeds = _speeds(which, rng, count, all_reduces(apps))
    sizes = rng.choice([1, 2, 4], count)
    spread = rng.uniform(1 - WORK_SPREAD, 1 + WORK_SPREAD, count)
    errors = np.exp(ERROR * rng.standard_normal(count))
    # Each is to take about the same time with the workers that it asks for.
    works = [length / 2 * spread[n] * speeds[n].of((int(sizes[n]),)) for n in range(count)]
    gpu_seconds = float(np.mean(length / 2 * spread * sizes))
    at = WARM + np.cumsum(rng.exponential(gpu_seconds / (load * (16 - crowded)), count))
    trainings = tuple(
        _training(n, float(at[n]), int(sizes[n]), works[n], length / 2 * spread[n] * errors[n], speeds[n], rng)
        for n in range(count)
    )
    return World(seed, trainings, _service(seed, RISE), *_others(crowded))


def manifests_world(
    which: str, seed: int, apps: dict[str, Application], crowded: int = 12, *, work: float = 1.0
) -> World:
    """The twelve trainings of DRAGON's manifests, all alike, one manifest of four after the other; see dragon.py.

    work: over the usual.
    """
    length = WORK * work
    count = WAVES * OF_WAVE
    rng = np.random.default_rng([seed, 3])
    speeds = _speeds(which, rng, count, all_reduces(apps))
    errors = np.exp(ERROR * rng.standard_normal(count))
    trainings = tuple(
        replace(
            _training(n, WARM + WAVE_SECONDS * (n // OF_WAVE), 2, length, length * errors[n], speeds[n], rng),
            elastic=ELASTIC[n // OF_WAVE],
        )
        for n in range(count)
    )
    return World(seed, trainings, _service(seed, RISE), *_others(crowded))


def _others(crowded: int) -> tuple[int, int]:
    """Notebooks, and replicas of the service, that hold so many GPUs; 0: trainings are alone."""
    return (crowded - 4, 4) if crowded else (0, 0)


def _service(seed: int, rise: float, times: int = 1) -> Service:
    return Service(seed, 2 * math.pi * draws.uniform(seed, "mix", "phase"), rise, times)


def _speeds(which: str, rng: np.random.Generator, count: int, models: Sequence[AllReduce]) -> list[Speed]:
    order = [models[int(n)] for n in rng.integers(len(models), size=count)]
    is_ps = {"ps": [True] * count, "ar": [False] * count, "mixed": (rng.permutation(count) % 2 == 0).tolist()}[which]
    server = ParameterServer()
    return [server if is_server else model for is_server, model in zip(is_ps, order, strict=True)]


def _training(
    number: int, at: float, workers: int, work: float, expected: float, speed: Speed, rng: np.random.Generator
) -> Training:
    estimate = {}
    for gpus in range(1, NODE_GPUS + 1):
        for nodes in range(1, gpus + 1):
            placement = (gpus - nodes + 1,) + (1,) * (nodes - 1)
            estimate[nodes, gpus] = speed.of(placement) * float(np.exp(ERROR * rng.standard_normal()))
    restart = speed.restart * float(np.exp(ERROR * rng.standard_normal()))
    return Training(f"t{number}", at, workers, work, expected, speed, estimate, restart)
