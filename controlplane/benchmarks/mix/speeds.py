"""How fast a training of the mix is with its workers where they are: the truth, which no policy reads.

A placement is a tuple of workers per node, that of the worker with the lowest rank first. Speed 1 is that of two
workers on one node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp
from typing import Protocol

from controlplane.benchmarks.training.tables import Application, Placement
from controlplane.benchmarks.training.trainings import split, turned

SATURATES = 6.0  # workers at which a parameter server's own speed holds it back
REMOTE = 1.35  # times as long as beside its server takes a worker on another node
BATCH = 4  # times the initial batch of its model: what a training with all-reduce has, on any number of GPUs
DROPPED = ("ncf",)  # of the measured models: it is slower on 2 GPUs than on 1
HOME = (2,)


class Speed(Protocol):
    """restart: s without progress each time that its workers change, and at its start."""

    @property
    def restart(self) -> float:
        """See the class."""
        ...

    def of(self, placement: Placement) -> float:
        """With these workers."""
        ...

    def beside(self, placement: Placement, parts: Sequence[float]) -> float:
        """With these workers, of which each has only a part of its GPU's time; parts: in the placement's order."""
        ...


@dataclass(frozen=True, slots=True)
class ParameterServer:
    """Asynchronous: each worker goes on by itself; the server, beside the first one, is the slower the more come."""

    restart: float = 0.0

    def of(self, placement: Placement) -> float:
        """With these workers."""
        return self.beside(placement, (1.0,) * sum(placement))

    def beside(self, placement: Placement, parts: Sequence[float]) -> float:
        """Each goes on by itself, as fast as it may."""
        workers = sum(parts[: placement[0]]) + sum(parts[placement[0] :]) / REMOTE
        return (1 - exp(-workers / SATURATES)) / (1 - exp(-sum(HOME) / SATURATES))


@dataclass(frozen=True)
class AllReduce:
    """Synchronous, with measured step times on T4 at a fixed batch of all GPUs together."""

    application: Application
    known: dict[Placement, float] = field(default_factory=dict)

    @property
    def restart(self) -> float:
        """As measured of its model."""
        return self.application.restart_seconds

    def of(self, placement: Placement) -> float:
        """With these workers."""
        if placement not in self.known:
            self.known[placement] = self._home / self._step(placement)
        return self.known[placement]

    def beside(self, placement: Placement, parts: Sequence[float]) -> float:
        """All wait for the slowest in each step."""
        return self.of(placement) * min(parts)

    @cached_property
    def _home(self) -> float:
        return self._step(HOME)

    def _step(self, placement: Placement) -> float:
        app = self.application
        local, passes = split(BATCH * app.initial_batch, sum(placement), app.initial_batch, app.longest_batch)
        step, sync = app.times_of(turned(placement), local)
        return step + passes * (step - sync)


def all_reduces(apps: Mapping[str, Application]) -> tuple[AllReduce, ...]:
    """One of each model that is taken."""
    return tuple(AllReduce(apps[model]) for model in sorted(apps) if model not in DROPPED)
