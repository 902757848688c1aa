"""A canary: a new revision of a service that gets a part of its requests, beside the one before, until one decides.

It is a rollout (rollouts.py) whose `weight` is below 100. The scheduler places one replica more than the service wants;
of all of them the new revision has as many as its part of the requests needs, and the one before keeps enough for the
rest. It is promoted by weight 100, by which the replacing goes on, or taken back.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle.state import LEAVING, Seat, State

WHOLE = 100  # percent: no canary
CHANCE = 0.001  # a revision that is as good as it must be is taken back by one look in a thousand
LEAST = 20  # requests before which it is not judged: the first ones of a program that has just started may be slow
MANY = 5000  # requests from which on the normal distribution is as good as the binomial


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests that a revision has answered since they are split, and those of them that were late or failed."""

    requests: int
    over: int

    @property
    def part(self) -> float:
        """Of them, 0..1; 0 of none."""
        return self.over / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What a new revision and the one before have answered meanwhile, and what part of requests is to be on time."""

    own: Tally
    before: Tally
    availability: float

    @property
    def burns(self) -> bool:
        """Whether it burns more than the error budget, and more than the revision before, and that is no chance."""
        may = max(1 - self.availability, self.before.part)
        return self.own.requests >= LEAST and _chance(self.own, may) < CHANCE


def is_one(rollout: Mapping[str, Any] | None) -> bool:
    """Whether a service has one now."""
    return rollout is not None and not rollout["is_back"] and weight_of(rollout) < WHOLE


def weight_of(rollout: Mapping[str, Any]) -> int:
    """Percent of the requests that the wanted revision is to get; what an older version wrote has none."""
    return int(rollout.get("weight", WHOLE))


class Weighed(Protocol):
    """The least that has to be known of a service to say how its replicas are divided."""

    @property
    def workers(self) -> int:
        """Replicas that it wants."""

    @property
    def revision(self) -> int:
        """The number of the wanted one."""

    @property
    def rollout(self) -> Any:
        """How far that is."""


def shares(row: Weighed) -> dict[int, int]:
    """How many replicas of each revision a service with a canary is to have: each enough for its part of the requests.

    One more than it wants in all; without room for that as many as it wants.
    """
    assert row.rollout is not None  # noqa: S101 - asked of a canary
    total = row.workers + (0 if row.rollout["has_no_room"] and row.workers > 1 else 1)
    new = min(max(1, math.ceil(row.workers * weight_of(row.rollout) / WHOLE)), total - 1)
    return {row.revision: new, int(row.rollout["from"]): total - new}


def next_revisions(row: State, staying: Iterable[Seat], count: int) -> list[int]:
    """Of which revision so many further replicas are: of the one before first, where it lacks some."""
    if not is_one(row.rollout):
        return [row.revision] * count
    wanted = shares(row)
    have = Counter(seat.revision for seat in staying)
    (before,) = (number for number in wanted if number != row.revision)
    found = []
    for _ in range(count):
        is_new = have[before] >= wanted[before] and have[row.revision] < wanted[row.revision]
        found.append(row.revision if is_new else before)
        have[found[-1]] += 1
    return found


def surplus(row: State, staying: Sequence[Seat]) -> list[Seat]:
    """Replicas beyond what their revision is to have, in the order in which they go; all of a third revision."""
    wanted = shares(row)
    have = Counter(seat.revision for seat in staying)
    found = []
    # What does not serve goes first; of the others what is neither revision, then what is the older one.
    for seat in sorted(staying, key=lambda one: (serves(one), one.revision in wanted, one.revision == row.revision)):
        if have[seat.revision] > wanted.get(seat.revision, 0):
            have[seat.revision] -= 1
            found.append(seat)
    return found


def split(row: State, seats: Iterable[Seat]) -> list[int] | None:
    """What the cluster is to be told of a service's requests: [attempt, revision, its percent]; None: nothing.

    Where one of both has no replica that answers, the other gets all. A revision that is taken back gets none.
    """
    rollout = row.rollout
    if rollout is None:
        return None
    ready = {seat.revision for seat in seats if seat.state != LEAVING and serves(seat)}
    if rollout["is_back"]:
        was_split = rollout.get("split") is not None
        return [row.attempt, int(rollout["from"]), 0] if was_split and row.revision in ready else None
    if not is_one(rollout) or row.revision not in ready or len(ready) == 1:
        return None
    return [row.attempt, row.revision, weight_of(rollout)]


def serves(seat: Seat) -> bool:
    """Whether a replica answers."""
    return seat.pod_phase == PodPhase.RUNNING


def _chance(tally: Tally, part: float) -> float:
    """How likely so many bad requests or more are where each is bad with this probability: the binomial's tail."""
    n, k = tally.requests, tally.over
    if not 0.0 < part < 1.0 or not k:
        return 0.0 if k and part <= 0.0 else 1.0
    if n > MANY:
        return 0.5 * math.erfc((k - 0.5 - n * part) / math.sqrt(2 * n * part * (1 - part)))
    first = n * math.log1p(-part)
    logs = [first]
    for i in range(1, k):
        logs.append(logs[-1] + math.log((n - i + 1) / i * part / (1 - part)))
    return max(0.0, 1.0 - math.fsum(map(math.exp, logs)))
