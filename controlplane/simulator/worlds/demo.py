"""The built-in demo: 20 nodes, two GPU models, four teams, and the job files of the three kinds of work.

Everything in it is ours. How much work arrives when is in demand.py.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from controlplane.simulator.worlds.hours import DAY, HOUR
from controlplane.simulator.worlds.presets import START, Document, Pool
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

A100 = Pool("a100", "A100", "3.67")
L40S = Pool("l40s", "L40S", "1.90")
T = TypeVar("T")

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
# Where the demo's clock starts: a Thursday at eleven, as the busiest hours begin. The week before it is its history.
OPENING = START + 7 * DAY + 11 * HOUR
IMAGE = "registry.example"
LARGEST_NODE = 8  # GPUs
# The model on which a running time is so long, where work may run on any: by their numbers of GPUs. So on average it
# takes as long on this cluster as its job file says.
SEEN_ON = ("A100", "A100", "L40S")
# In the busy hours a training takes so much longer in this cluster than on the best placement, for which its job file
# says its running time: workers sit apart, and some start again after they had to leave.
TAKES = 1.15
# A training on several workers has a program that hardly minds where they sit
# (controlplane/simulator/worlds/profiles.py).
SPREAD_WELL = ("resnet-like-small", "resnet-like-large", "tabular-like")


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of submission.

    part is its share of the GPU time that trainings, notebooks and pipelines ask, minutes the median running time.
    """

    name: str
    part: float
    minutes: float
    workers: tuple[int, ...] = (1,)  # equally likely
    gpus: tuple[int, ...] = (1,)
    copies: int = 1  # jobs submitted at once: a sweep over parameters
    models: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ("normal",)


@dataclass(frozen=True, slots=True)
class Served:
    """A service that runs from the start on.

    profile: what its model is like (profiles.py). base: requests per second on a day's average. share: of a GPU, 0 for
    whole ones. least, most: replicas, as its team sized it: the least for about its usual load; the most, as a judge of
    policies sizes it, for half more requests than its busiest minute brings (BUSIEST times the base), on the slowest
    GPUs of the cluster. Without a profile or a base they are drawn, as for any service that says nothing of them.
    """

    team: str
    name: str
    profile: str
    base: float
    share: float
    least: int
    most: int

    @property
    def gpus(self) -> float:
        """What it holds in the busiest hours, about."""
        return 2 * self.least * (self.share or 1.0)


class Draw(Protocol):
    """Where job files get their random numbers from."""

    def one(self, of: Sequence[T]) -> T:
        """One of these, each as likely."""

    def between(self, low: float, high: float) -> float:
        """A number from `low` to `high`, each as likely."""


STREAMS = (
    Stream("train", 0.22, 30, gpus=(1, 1, 2), priorities=("low", "normal", "normal", "high")),
    Stream("gang", 0.42, 60, workers=(2, 4, 4, 8), models=("A100",), priorities=("normal", "normal", "high")),
    Stream("sweep", 0.20, 40, copies=12, priorities=("low",)),
    Stream("explore", 0.04, 90),
    Stream("pipeline", 0.12, 40, workers=(2,), gpus=(1, 2)),
)
SHARE = 0.25  # of a GPU: a notebook
BUSIEST = 1.5 * 1.6  # a day's highest, in a burst (controlplane/cluster/serving/traffic.py)
SERVICES = (
    Served("nlp", "chat", "chat-like", 290.0, 0.0, 3, 9),
    Served("vision", "detector", "vision-like", 95.0, 0.5, 2, 7),
    Served("product", "ranker", "ranker-like", 135.0, 0.5, 3, 13),
    Served("product", "asr", "speech-like-service", 100.0, 0.0, 2, 11),
)
# A service gets its traffic step by step, and most of it in the afternoon. One that a pipeline has just brought out is
# on trial, and gets so few requests per second that one replica of any profile can answer them, most of the time.
ROLLOUT = 600.0
RATE = {"peak": 14.0, "rollout": ROLLOUT}
NEW_RATE = {**RATE, "base": 15.0}
PREPARE_SECONDS, TRIAL_SECONDS = 300.0, 7200.0
TRIAL_SHARE = 0.5  # of a GPU: one replica on trial


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


def documents(stream: Stream, team: str, name: str, seconds: float, draw: Draw) -> tuple[Document, ...]:
    """The job files of one submission of this running time, what varies between them drawn."""
    workers, gpus, priority = draw.one(stream.workers), draw.one(stream.gpus), draw.one(stream.priorities)
    believed = seconds * draw.between(0.7, 2.0)  # people do not know it exactly
    if stream.name == "explore":
        return (_notebook(team, name, seconds),)
    if stream.name == "pipeline":
        return _pipeline(team, name, seconds, workers, gpus, draw.one(SEEN_ON))
    names = [name] if stream.copies == 1 else [f"{name}-{i}" for i in range(stream.copies)]
    shape = _shape(workers, gpus, stream.models, priority)
    seen_on = draw.one(stream.models or SEEN_ON)
    jobs = (_training(team, copy, seconds, believed, seen_on) | shape for copy in names)
    return tuple(_spread_well(job, name) if workers > 1 else job for job in jobs)


def _spread_well(job: dict[str, Any], name: str) -> Document:
    profile = SPREAD_WELL[zlib.crc32(name.encode()) % len(SPREAD_WELL)]
    return {**job, "simulated": {**job["simulated"], "profile": profile}}


def gpu_seconds(stream: Stream, seconds: float) -> float:
    """What one submission asks on average, when running times are `seconds` on average."""
    if stream.name == "explore":
        return SHARE * seconds
    asked = _mean(stream.workers) * _mean(stream.gpus) * seconds * stream.copies
    return asked + (PREPARE_SECONDS + TRIAL_SHARE * TRIAL_SECONDS if stream.name == "pipeline" else 0.0)


def serving_gpus() -> float:
    """What the services that run from the start on hold in the busiest hours, about."""
    return sum(service.gpus for service in SERVICES)


def services(served: Sequence[Served] = SERVICES) -> tuple[tuple[Document, str], ...]:
    """The services that run from the start on, each with its submitter."""
    return tuple((_served(service), PEOPLE[service.team][-1]) for service in served)


def _served(service: Served) -> Document:
    truth: dict[str, Any] = {"rate": RATE | ({"base": service.base} if service.base else {})}
    truth |= {"profile": service.profile} if service.profile else {}
    job = _inference(service.team, service.name, service.share, (service.least, service.most))
    return {**job, "simulated": truth}


def shortened(document: Document, rest: float) -> Document:
    """The job file of something that has run before the start: only this part of its running time is left."""
    truth = dict(document.get("simulated", {}))
    if "duration" in truth:
        truth["duration"] = max(30.0, float(math.ceil(truth["duration"] * rest)))
    return {**document, "simulated": truth} if truth else document


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


def _training(team: str, name: str, seconds: float, believed: float, seen_on: str) -> dict[str, Any]:
    return {
        "type": "training",
        "name": name,
        "team": team,
        "image": f"{IMAGE}/{team}/train:4",
        "command": ["torchrun", "train.py"],
        "checkpoint": {"interval": "5m", "grace": "30s"},
        "expected_duration": f"{round(believed)}s",
        "retries": 1,
        "simulated": {"duration": float(round(seconds / TAKES)), "reference_model": seen_on},
    }


def _shape(workers: int, gpus: int, models: tuple[str, ...], priority: str) -> dict[str, object]:
    resources: dict[str, object] = {"gpus": gpus, "cpu": 6 * gpus, "memory": f"{48 * gpus}Gi"}
    if models:
        resources["gpu_model"] = list(models)
    shape: dict[str, object] = {"resources": resources, "priority_class": priority}
    if workers > 1:
        shape["workers"] = {"count": workers, "min": workers, "max": workers}
        shape["topology"] = {"require": "zone", "prefer": "node" if workers * gpus <= LARGEST_NODE else "rack"}
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
        "idle": {"park_after": "2h"},  # most people come back before, and what was parked is not resumed
        "simulated": {"duration": seconds},
    }


def _pipeline(team: str, name: str, seconds: float, workers: int, gpus: int, seen_on: str) -> tuple[Document, ...]:
    prepare, train, serve = f"{name}-prepare", f"{name}-train", f"{name}-serve"
    return (
        _training(team, prepare, PREPARE_SECONDS, 1.3 * PREPARE_SECONDS, seen_on) | _shape(1, 1, (), "normal"),
        _spread_well(
            _training(team, train, seconds, seconds * 1.3, seen_on)
            | _shape(workers, gpus, (), "normal")
            | {"after": [prepare]},
            name,
        ),
        _inference(team, serve, TRIAL_SHARE, (1, 2))
        | {"after": [train], "max_duration": f"{TRIAL_SECONDS:.0f}s", "simulated": {"rate": NEW_RATE}},
    )


def _inference(team: str, name: str, share: float, replicas: tuple[int, int]) -> dict[str, object]:
    part = {"gpu_share": {"guarantee": share, "limit": share, "memory": "20Gi"}}
    return {
        "type": "inference",
        "name": name,
        "team": team,
        "priority_class": "serving",
        "image": f"{IMAGE}/{team}/{name.split('-')[0]}:7",
        "port": 8000,
        "replicas": {"min": replicas[0], "max": replicas[1]},
        "resources": {**(part if share else {"gpus": 1}), "cpu": 4, "memory": "32Gi"},
        "objective": {"p95_latency": "250ms", "availability": 99.0, "window": "1d"},
    }
