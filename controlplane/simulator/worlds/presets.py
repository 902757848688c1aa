"""What a simulated world starts from: nodes, teams, quotas, priority classes and the arrivals of work.

A preset scripts no event. It says what exists and what people submit when; what comes of it is decided by the loops.
The same name, load and seed give the same preset.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Node
from scheduler.model.team import Quota, Team

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z: where a simulated clock starts unless its preset says otherwise

Document = Mapping[str, Any]  # docs/job-file.md, and `simulated` for what only the simulated cluster knows


class PresetError(Exception):
    """A preset that cannot be had; the message is one sentence with the fix."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with one GPU model; price is per GPU and hour."""

    name: str
    gpu_model: str
    price: str = "0"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A named priority; preemptible work may be made to leave."""

    name: str
    value: int
    preemptible: bool = True
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """Job files that somebody submits together at one moment of the cluster's clock."""

    at: float
    documents: tuple[Document, ...]
    actor: str


class Arrivals(Protocol):
    """A stream of arrivals that can be asked for again from the start: times never decrease."""

    def __iter__(self) -> Iterator[Arrival]:
        """All arrivals, in order; may be endless."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the loops look, in seconds of the cluster's clock; rounds happen at multiples of `slot`.

    What happens is looked at in its slot. The periods are for what time alone brings about: `net` for the scheduler,
    `scale` for services, `account` for usage rows and the charts' samples.
    """

    slot: float = 5.0
    scale: float = 15.0
    net: float = 60.0
    account: float = 60.0
    speed: float = 60.0  # cluster seconds per second unless told otherwise


@dataclass(frozen=True, slots=True)
class Preset:
    """One simulated world before anything happened in it."""

    name: str
    load: float
    seed: int
    nodes: tuple[Node, ...]
    pools: tuple[Pool, ...]
    teams: tuple[Team, ...]
    quotas: tuple[Quota, ...]
    arrivals: Arrivals
    pace: Pace = Pace()
    start: float = START  # where its clock starts

    @property
    def identity(self) -> str:
        """What a database belongs to: another identity needs another database."""
        return f"{self.name} load={self.load:g} seed={self.seed}"

    @property
    def gpus(self) -> int:
        """Devices in the cluster."""
        return sum(node.gpus for node in self.nodes)


# Steps of 100, so that ageing (at most 50 points) never lifts work over the next class.
PRIORITY_CLASSES = (
    PriorityClass("low", 100),
    PriorityClass("normal", 200, is_default=True),
    PriorityClass("high", 300),
    PriorityClass("serving", 400, preemptible=False),
)


def divide(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide whole things by weight, largest remainders first; the result sums to `total`, ties go by name."""
    whole = sum(weights.values())
    exact = {name: total * weight / whole for name, weight in weights.items()}
    parts = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (parts[name] - exact[name], name))
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


def quotas_by_weight(nodes: tuple[Node, ...], weights: Mapping[str, float]) -> tuple[Quota, ...]:
    """Nominal quotas that divide every pool's GPUs between the teams by weight."""
    sizes: dict[str, int] = {}
    for node in nodes:
        sizes[node.pool] = sizes.get(node.pool, 0) + node.gpus
    return tuple(
        Quota(team, pool, nominal=gpus * WHOLE)
        for pool, size in sizes.items()
        for team, gpus in divide(size, weights).items()
    )
