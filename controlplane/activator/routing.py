"""Which activator a service's traffic goes through, or that it goes direct: pure, decided again each half second.

A service has one activator at a time, so that it has one queue and no replica gets more than its slots. It stays with
that one as long as it answers; then another takes it. Everything is direct while none answers, and a service that its
activator cannot take: when one uses more than FULL of what it can, its busiest services leave until it uses no more.
One that left comes back after REST_SECONDS if with its last load an activator would still use less than CALM.
A service without a ready replica is never direct while an activator answers: its requests are held there.
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

    def part(self, workload: str) -> float:
        """What this service uses of it, by its part of the requests."""
        total = sum(self.rates.values())
        return self.load * self.rates.get(workload, 0.0) / total if total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Left:
    """A service that was sent direct: when, and what it had used of an activator."""

    at: float
    load: float


@dataclass(frozen=True, slots=True)
class Routes:
    """What holds now: the activator of each service that has one, and the services that were too much for theirs."""

    through: Mapping[str, str] = field(default_factory=dict)  # address by workload
    left: Mapping[str, Left] = field(default_factory=dict)


def decide(before: Routes, at: float, said: Iterable[Said], ready: Mapping[str, int]) -> Routes:
    """said: of each activator that answers and does not drain; ready: replicas of each service with our queue."""
    every = {one.address: one for one in sorted(said, key=lambda one: one.address)}
    left = {workload: one for workload, one in before.left.items() if ready.get(workload, 0) > 0}
    stays = {w: to for w, to in before.through.items() if w in ready and to in every and w not in left}
    # What has left a moment ago is still in what an activator says: it is on its way out, and sends no other after it.
    used = {to: one.load - sum(one.part(w) for w in one.rates if stays.get(w) != to) for to, one in every.items()}
    for workload, to in sorted(stays.items(), key=lambda pair: (-every[pair[1]].part(pair[0]), pair[0])):
        if used[to] > FULL and ready[workload] > 0 and (load := every[to].part(workload)) > 0:
            left[workload] = Left(at, load)
            used[to] -= load
            del stays[workload]
    count = {to: sum(one == to for one in stays.values()) for to in every}
    for workload in sorted(ready.keys() - stays.keys() if every else ()):
        to = min(every, key=lambda one: (round(used[one], 1), count[one], one))
        if (gone := left.get(workload)) is not None:
            if at - gone.at < REST_SECONDS or used[to] + gone.load > CALM:
                continue
            used[to] += gone.load
            del left[workload]
        stays[workload] = to
        count[to] += 1
    return Routes(stays, left)
