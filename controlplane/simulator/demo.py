"""The built-in demo: 20 nodes, two GPU models, four teams, the three kinds of work. Everything in it is ours.

Work arrives by Poisson processes, one for each team and kind of submission, with rates that make the offered GPU load
as asked (arrivals.py). The world has a past: it starts with what the same processes submitted in the hours before and
what would still run. Nothing is scripted: preemption and reclaim come about because the load is above the cluster and
the teams' demand varies by chance.
"""

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controlplane.simulator.presets import START, Arrival, Document, Pool
from gpushare.gpu import WHOLE
from scheduler.snapshot import Node
from scheduler.team import Quota, Team

A100 = Pool("a100", "A100", "3.67")
L40S = Pool("l40s", "L40S", "1.90")
POOLS = (A100, L40S)
TEAMS = (Team("research"), Team("nlp", parent="research"), Team("vision", parent="research"), Team("product"))
# GPUs that each team owns itself: (a100, l40s); 80 and 40 in all.
NOMINAL: Mapping[str, tuple[int, int]] = {"research": (8, 8), "nlp": (32, 8), "vision": (24, 16), "product": (16, 8)}
PEOPLE: Mapping[str, tuple[str, ...]] = {
    "research": ("ravi", "lena"),
    "nlp": ("ada", "noor", "ci-nlp"),
    "vision": ("ines", "omar", "ci-vision"),
    "product": ("tom", "yuki", "ci-product"),
}
PAST = 6 * 3600.0  # seconds of arrivals before the start; the demo's work is shorter than that
SPREAD = 0.7  # of the logarithm of running times: the middle two thirds lie within a factor of two
IMAGE = "registry.example"


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of submission. part is its share of the offered GPU time, minutes the median running time."""

    name: str
    part: float
    minutes: float
    workers: tuple[int, ...] = (1,)  # equally likely
    gpus: tuple[int, ...] = (1,)
    copies: int = 1  # jobs submitted at once: a sweep over parameters
    models: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ("normal",)


STREAMS = (
    Stream("train", 0.22, 9, gpus=(1, 1, 2), priorities=("low", "normal", "normal", "high")),
    Stream(
        "gang", 0.42, 20, workers=(2, 2, 4, 8), gpus=(2, 4), models=("A100",), priorities=("normal", "normal", "high")
    ),
    Stream("sweep", 0.20, 14, copies=12, priorities=("low",)),
    Stream("explore", 0.04, 40),
    Stream("pipeline", 0.12, 12, workers=(4,), gpus=(1, 2)),
)
SHARE = 0.25  # of a GPU: a notebook
# One service each, from the start: (team, name, GPU share or 0 for whole GPUs, most replicas). Half of them are the
# least: whoever runs a service sizes it for its usual load, and leaves peaks and bursts to the autoscaler.
SERVICES = (
    ("nlp", "chat", 0.0, 6),
    ("vision", "detector", 0.5, 4),
    ("product", "ranker", 0.5, 6),
    ("product", "asr", 0.0, 4),
)
# A service gets its traffic step by step. One that a pipeline has just brought out gets so few requests per second that
# one replica of any profile can answer them, most of the time.
ROLLOUT = 600.0
NEW_RATE = {"base": 15.0, "rollout": ROLLOUT}


def nodes() -> tuple[Node, ...]:
    """Ten nodes of 8 A100 and ten of 4 L40S, in two zones of two racks."""
    big = [_node(A100, i, 8, 80, 96, 1024) for i in range(10)]
    small = [_node(L40S, i, 4, 48, 64, 512) for i in range(10)]
    return tuple(big + small)


def quotas() -> tuple[Quota, ...]:
    """What each team owns, a parent's with its children's; all may borrow without limit."""
    below = {team.name: [child.name for child in TEAMS if child.parent == team.name] for team in TEAMS}
    return tuple(
        Quota(team, pool.name, nominal=sum(NOMINAL[name][i] for name in (team, *below[team])) * WHOLE)
        for team in NOMINAL
        for i, pool in enumerate(POOLS)
    )


@dataclass(frozen=True)
class Demand:
    """The demo's arrivals, without end."""

    gpus: int  # in the cluster
    load: float
    seed: int

    def __iter__(self) -> Iterator[Arrival]:
        """First the services and what runs already, then what arrives."""
        for service in SERVICES:
            yield Arrival(START, (_inference(*service),), PEOPLE[service[0]][-1])
        for at, seconds, arrival in self._submissions():
            if at >= START:
                yield arrival
            elif at + seconds > START:
                rest = (at + seconds - START) / seconds
                yield Arrival(START, tuple(_shortened(document, rest) for document in arrival.documents), arrival.actor)

    def _submissions(self) -> Iterator[tuple[float, float, Arrival]]:
        streams = [
            _Process(team, stream, self._rate(team, stream), self.seed).submissions()
            for team in NOMINAL
            for stream in STREAMS
        ]
        return heapq.merge(*streams, key=lambda submission: submission[0])

    def _rate(self, team: str, stream: Stream) -> float:
        """Submissions per second."""
        owned = sum(NOMINAL[team]) / sum(sum(pair) for pair in NOMINAL.values())
        return owned * stream.part * self.load * self.gpus / _gpu_seconds(stream)


@dataclass(frozen=True)
class _Process:
    """A Poisson process of one team's submissions of one kind, with random numbers of its own."""

    team: str
    stream: Stream
    rate: float
    seed: int

    @cached_property
    def _salt(self) -> list[int]:
        return [self.seed, list(NOMINAL).index(self.team), STREAMS.index(self.stream)]

    def submissions(self) -> Iterator[tuple[float, float, Arrival]]:
        """(when, for how long, what), from before the start on."""
        random, at, number = np.random.default_rng(self._salt), START - PAST, 0
        while True:
            at += float(random.exponential(1 / self.rate))
            number += 1
            seconds = _running_time(self.stream, random)
            people = PEOPLE[self.team]
            actor = people[int(random.integers(len(people)))]
            documents = self._documents(number, seconds, random)
            yield math.ceil(at), seconds, Arrival(math.ceil(at), documents, actor)

    def _documents(self, number: int, seconds: float, random: np.random.Generator) -> tuple[Document, ...]:
        stream = self.stream
        workers = int(random.choice(stream.workers))
        gpus = int(random.choice(stream.gpus))
        priority = str(random.choice(stream.priorities))
        believed = seconds * float(random.uniform(0.7, 2.0))  # people do not know it exactly
        name = f"{stream.name}-{number}"
        if stream.name == "explore":
            return (_notebook(self.team, name, seconds),)
        if stream.name == "pipeline":
            return _pipeline(self.team, name, seconds, workers, gpus)
        names = [name] if stream.copies == 1 else [f"{name}-{i}" for i in range(stream.copies)]
        return tuple(
            _training(self.team, copy, seconds, believed) | _shape(workers, gpus, stream.models, priority)
            for copy in names
        )


def _node(pool: Pool, i: int, gpus: int, memory_gib: int, cores: int, ram_gib: int) -> Node:
    rack = i % 4
    return Node(
        name=f"{pool.name}-{i:02}",
        pool=pool.name,
        model=pool.gpu_model,
        gpus=gpus,
        gpu_memory=memory_gib * 1024,
        cpu_milli=cores * 1000,
        memory=ram_gib * 1024,
        rack=f"rack-{rack}",
        zone=f"zone-{'ab'[rack // 2]}",
        nvlink=gpus if pool is A100 else 0,
    )


def _running_time(stream: Stream, random: np.random.Generator) -> float:
    median = stream.minutes * 60
    return float(round(min(max(random.lognormal(math.log(median), SPREAD), 90.0), PAST / 2)))


def _gpu_seconds(stream: Stream) -> float:
    """Of one submission, on average (without the cut of very long and very short ones)."""
    seconds = stream.minutes * 60 * math.exp(SPREAD**2 / 2)
    if stream.name == "explore":
        return SHARE * seconds
    return sum(stream.workers) / len(stream.workers) * sum(stream.gpus) / len(stream.gpus) * seconds * stream.copies


def _training(team: str, name: str, seconds: float, believed: float) -> dict[str, object]:
    return {
        "type": "training",
        "name": name,
        "team": team,
        "image": f"{IMAGE}/{team}/train:4",
        "command": ["torchrun", "train.py"],
        "checkpoint": {"interval": "5m", "grace": "30s"},
        "expected_duration": f"{round(believed)}s",
        "retries": 1,
        "simulated": {"duration": seconds},
    }


def _shape(workers: int, gpus: int, models: tuple[str, ...], priority: str) -> dict[str, object]:
    resources: dict[str, object] = {"gpus": gpus, "cpu": 6 * gpus, "memory": f"{48 * gpus}Gi"}
    if models:
        resources["gpu_model"] = list(models)
    shape: dict[str, object] = {"resources": resources, "priority_class": priority}
    if workers > 1:
        shape["workers"] = {"count": workers, "min": workers, "max": workers}
        shape["topology"] = {"require": "zone", "prefer": "rack"}
    return shape


def _notebook(team: str, name: str, seconds: float) -> Document:
    return {
        "type": "notebook",
        "name": name,
        "team": team,
        "priority_class": "normal",
        "image": f"{IMAGE}/notebook:2",
        "resources": {
            "gpu_share": {"guarantee": SHARE, "limit": 1.0, "memory": "10Gi"},
            "cpu": 4,
            "memory": "16Gi",
            "gpu_model": ["L40S"],
        },
        "idle": {"park_after": "30m"},
        "simulated": {"duration": seconds},
    }


def _pipeline(team: str, name: str, seconds: float, workers: int, gpus: int) -> tuple[Document, ...]:
    prepare, train, serve = f"{name}-prepare", f"{name}-train", f"{name}-serve"
    return (
        _training(team, prepare, 180.0, 240.0) | _shape(1, 1, (), "normal"),
        _training(team, train, seconds, seconds * 1.3) | _shape(workers, gpus, (), "normal") | {"after": [prepare]},
        _inference(team, serve, 0.5, 2) | {"after": [train], "max_duration": "40m", "simulated": {"rate": NEW_RATE}},
    )


def _inference(team: str, name: str, share: float, replicas: int) -> dict[str, object]:
    part = {"gpu_share": {"guarantee": share, "limit": share, "memory": "20Gi"}}
    return {
        "type": "inference",
        "name": name,
        "team": team,
        "priority_class": "serving",
        "image": f"{IMAGE}/{team}/{name.split('-')[0]}:7",
        "port": 8000,
        "replicas": {"min": replicas // 2, "max": replicas},
        "resources": {**(part if share else {"gpus": 1}), "cpu": 4, "memory": "32Gi"},
        "objective": {"p95_latency": "250ms", "availability": 99.0, "window": "1d"},
        "simulated": {"rate": {"rollout": ROLLOUT}},
    }


def _shortened(document: Document, rest: float) -> Document:
    """The job file of something that has run before the start: only the rest of its running time is left."""
    truth = dict(document.get("simulated", {}))
    if "duration" in truth:
        truth["duration"] = max(30.0, float(math.ceil(truth["duration"] * rest)))
    return {**document, "simulated": truth} if truth else document
