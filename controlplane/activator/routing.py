"""Which services' traffic goes through the activators, and which goes direct: pure, decided again each half second.

Direct goes everything while no activator answers, and a service beyond what its activators can take: when together they
use more than FULL of what they can, the busiest services leave until they use no more than that. One that left comes
back after REST_SECONDS if with its last load they would still use less than CALM. A service without a ready replica
is never direct while an activator answers: its requests are held there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FULL, CALM = 0.8, 0.6  # of an activator's measured limit
REST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    """What an activator has said of itself: the part of its limit that it uses, and requests a second by workload."""

    address: str
    load: float
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Left:
    """A service that was sent direct: when, and what it had used of one activator."""

    at: float
    load: float


@dataclass(frozen=True, slots=True)
class Routes:
    """What holds now: the activators that traffic goes to, and the services that it does not go there for."""

    through: tuple[str, ...] = ()  # addresses; none: everything is direct
    left: Mapping[str, Left] = field(default_factory=dict)

    def of(self, workload: str) -> tuple[str, ...]:
        """The activators of a service; none: direct."""
        return () if workload in self.left else self.through


def decide(before: Routes, at: float, said: Iterable[Said], ready: Mapping[str, int]) -> Routes:
    """said: of each activator that answers and does not drain; ready: replicas of each service with our queue."""
    every = sorted(said, key=lambda one: one.address)
    room = len(every)
    left = {workload: one for workload, one in before.left.items() if ready.get(workload, 0) > 0}
    loads = _loads(every)
    # What left a moment ago is still in what they say: it is on its way out, and sends no other after it.
    used = sum(one.load for one in every) - sum(loads.get(workload, 0.0) for workload in left)
    for workload in sorted(loads.keys() & ready.keys(), key=lambda name: (-loads[name], name)):
        if used <= FULL * room:
            break
        if workload not in left and ready[workload] > 0:
            left[workload] = Left(at, loads[workload])
            used -= loads[workload]
    for workload, one in sorted(left.items()):
        back = max(one.load, loads.get(workload, 0.0))
        if at - one.at >= REST_SECONDS and used + back <= CALM * room:
            used += back
            del left[workload]
    return Routes(tuple(one.address for one in every), left)


def _loads(every: list[Said]) -> dict[str, float]:
    """What each service uses of one activator, by its part of the requests."""
    loads: dict[str, float] = {}
    for one in every:
        total = sum(one.rates.values())
        for workload, rate in one.rates.items():
            if rate > 0:
                loads[workload] = loads.get(workload, 0.0) + one.load * rate / total
    return loads
