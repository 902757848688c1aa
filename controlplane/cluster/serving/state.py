"""All that is needed to go on with a service's requests from a moment: its replicas, what they work on, what waits."""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np

from controlplane.cluster.serving.outcomes import TOLD, Totals
from controlplane.cluster.serving.split import Split
from controlplane.cluster.serving.traffic import BLOCK_SECONDS, Floats, Ints


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: requests (or batches) at once, seconds of a request of mean size."""

    name: str
    slots: int
    seconds: float
    revision: int = 0


@dataclass(slots=True, eq=False)
class Flights:
    """Requests that are being served. by: index of the replica, or -1 when it only ends what it has begun.

    first: part of the service time after which the first token is there; 1: with the whole answer, or it is not asked.
    """

    arrived: Floats = field(default_factory=lambda: np.empty(0))
    began: Floats = field(default_factory=lambda: np.empty(0))
    ends: Floats = field(default_factory=lambda: np.empty(0))
    by: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    count: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    first: Floats = field(default_factory=lambda: np.empty(0))

    def pick(self, those: "np.typing.NDArray[np.bool_]") -> "Flights":
        """Some of them."""
        return Flights(*(part[those] for part in self._parts()))

    def and_(self, other: "Flights") -> "Flights":
        """Both."""
        pairs = zip(self._parts(), other._parts(), strict=True)
        return Flights(*(np.concatenate(pair) for pair in pairs))

    def plain(self) -> list[list[Any]]:
        """As lists; without the first tokens where none is asked."""
        return [part.tolist() for part in (self._parts() if (self.first < 1).any() else self._parts()[:-1])]

    def _parts(self) -> tuple[Any, ...]:
        return (self.arrived, self.began, self.ends, self.by, self.count, self.first)


@dataclass(slots=True, eq=False)
class State:
    """A service at a moment, before anything of that moment has happened.

    block, index: of the first request that has not been begun; ahead: of those after it that have, as a split makes two
    queues of them, by their distance to it. free, owner: the heap of slots (see loops.serve). totals: since the service
    began; tallies: [requests, late or failed] by revision, since the requests are split.
    """

    at: float
    block: int
    index: int = 0
    replicas: tuple[Replica, ...] = ()
    free: Floats = field(default_factory=lambda: np.empty(0))
    owner: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    flights: Flights = field(default_factory=Flights)
    totals: Totals = field(default_factory=Totals)
    split: Split | None = None
    ahead: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    tallies: dict[int, list[int]] = field(default_factory=dict)

    @staticmethod
    def begin(at: float) -> "State":
        """Nothing runs, and nothing has come."""
        return State(at, math.floor(at / BLOCK_SECONDS))

    def copy(self) -> "State":
        """One that does not change with this one; arrays of requests are never written to."""
        totals = replace(self.totals)  # its lists are replaced, never written to
        tallies = {revision: list(tally) for revision, tally in self.tallies.items()}
        return replace(self, free=self.free.copy(), owner=self.owner.copy(), totals=totals, tallies=tallies)

    def plain(self) -> list[Any]:
        """As JSON."""
        totals = list(astuple(self.totals))
        totals = totals if any(self.totals.firsts) else totals[:TOLD]
        replicas = [list(astuple(r)) for r in self.replicas]
        slots = [self.free.tolist(), self.owner.tolist()]
        split = [self.split and list(astuple(self.split)), self.ahead.tolist(), sorted(self.tallies.items())]
        return [self.at, self.block, self.index, replicas, *slots, self.flights.plain(), totals, *split]

    @staticmethod
    def of(plain: Sequence[Any]) -> "State":
        """The state that `plain` told."""
        at, block, index, replicas, free, owner, flights, totals, split, ahead, tallies = [*plain, None, (), ()][:11]
        arrived, began, ends, by, count, *firsts = flights
        return State(
            at, block, index, tuple(Replica(*r) for r in replicas), np.array(free, float), np.array(owner, np.int64),
            Flights(
                np.array(arrived, float), np.array(began, float), np.array(ends, float), np.array(by, np.int64),
                np.array(count, np.int64), np.array(firsts[0] if firsts else [1.0] * len(count), float),
            ),
            Totals(*totals), Split(*split) if split else None, np.array(ahead, np.int64), dict(tallies),
        )  # fmt: skip
