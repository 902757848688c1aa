"""The queue in front of a service: slots per replica, first come first served, bounded, with a lane for what is late.

What has waited longer than `late_after` is late: it is served only while nothing on time waits, so that a burst makes
its own requests late and not all that come after it. While no replica is ready, requests are held. Some replicas may be
chosen for a part of the requests of their own. Time is an argument.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

WHOLE = 100  # percent
REST_SECONDS = 1.0  # a replica that did not take a connection gets no request for so long

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a service may be given: requests at once a replica, seconds until late, waiting, seconds until given up."""

    slots: int
    late_after: float
    waiting: int
    patience: float


@dataclass(frozen=True, slots=True)
class Taken(Generic[Key]):
    """A request that a replica is to serve now."""

    key: Key
    replica: str
    arrived: float
    is_late: bool


class Lanes(Generic[Key]):
    """The queue of one service. Every call takes the same time, however much waits; a turn looks at each replica."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._on_time: OrderedDict[Key, float] = OrderedDict()  # by arrival, the oldest first
        self._late: OrderedDict[Key, float] = OrderedDict()
        self._ready: tuple[str, ...] = ()
        self._chosen: tuple[str, ...] = ()  # of the ready ones, those that get `_percent` of the requests
        self._others: tuple[str, ...] = ()
        self._percent: int | None = None  # None: a request goes to any replica
        self._credit = 0  # hundredths of a request that those chosen are behind
        self._running: dict[str, int] = {}  # of replicas that have left as well, until their last answer
        self._rests: dict[str, float] = {}  # until when

    @property
    def waiting(self) -> int:
        """Requests that wait, in both lanes."""
        return len(self._on_time) + len(self._late)

    @property
    def running(self) -> int:
        """Requests that replicas serve."""
        return sum(self._running.values())

    @property
    def widest(self) -> int:
        """Most requests that one replica serves now."""
        return max(self._running.values(), default=0)

    @property
    def ready(self) -> tuple[str, ...]:
        """Replicas that may be given requests."""
        return self._ready

    def use(self, replicas: Iterable[str], chosen: Iterable[str] = (), percent: int | None = None) -> None:
        """From now on these are ready. What the others serve is served to its end.

        percent: of the requests, that the chosen replicas get; where those or the others are not ready, the rest gets
        all.
        """
        self._ready = tuple(dict.fromkeys(replicas))
        known = set(self._ready)
        self._chosen = tuple(name for name in dict.fromkeys(chosen) if name in known)
        self._others = tuple(name for name in self._ready if name not in self._chosen)
        percent = percent if self._chosen and self._others else None
        if percent != self._percent:
            self._percent, self._credit = percent, 0
        self._rests = {name: until for name, until in self._rests.items() if name in known}

    def arrive(self, key: Key, at: float) -> bool:
        """A request comes; False: it is refused, as a free slot is not there and as many wait as may."""
        if self.waiting >= self.bounds.waiting and (self.waiting > 0 or self._free(at) is None):
            return False
        self._on_time[key] = at
        return True

    def take(self, at: float) -> Taken[Key] | None:
        """The request whose turn it is, and its replica: the one with the fewest; None without either."""
        self._age(at)
        lane = self._on_time or self._late
        if not lane or (replica := self._next(at)) is None:
            return None
        key, arrived = lane.popitem(last=False)
        self._running[replica] = self._running.get(replica, 0) + 1
        return Taken(key, replica, arrived, is_late=lane is self._late)

    def leave(self, key: Key) -> bool:
        """A request that waits is given up by its sender; False: it does not wait."""
        return any(lane.pop(key, None) is not None for lane in (self._on_time, self._late))

    def done(self, replica: str) -> None:
        """A replica has ended one of its requests, in whatever way."""
        left = self._running[replica] - 1
        if left:
            self._running[replica] = left
        else:
            del self._running[replica]

    def put_back(self, taken: Taken[Key], at: float) -> None:
        """The replica took no connection: it rests, and the request is the first of its lane again."""
        self.done(taken.replica)
        if taken.replica in self._ready:
            self._rests[taken.replica] = at + REST_SECONDS
        lane = self._late if taken.is_late else self._on_time
        lane[taken.key] = taken.arrived
        lane.move_to_end(taken.key, last=False)

    def give_up(self, at: float) -> tuple[Key, ...]:
        """Those that have waited as long as they may; they wait no longer."""
        self._age(at)
        found = []
        for lane in (self._late, self._on_time):
            while lane and at - next(iter(lane.values())) > self.bounds.patience:
                found.append(lane.popitem(last=False)[0])
        return tuple(found)

    def drop(self) -> tuple[Key, ...]:
        """All that wait; they wait no longer."""
        found = (*self._late, *self._on_time)
        self._late.clear()
        self._on_time.clear()
        return found

    def _age(self, at: float) -> None:
        while self._on_time and at - next(iter(self._on_time.values())) > self.bounds.late_after:
            key, arrived = self._on_time.popitem(last=False)
            self._late[key] = arrived

    def _next(self, at: float) -> str | None:
        """The replica for the next request. By the count of requests, not by chance, those chosen get their part.

        They never get more: while the others are busy, requests wait. While they are busy the others take their turns,
        and are given them back later, a slot's worth of each at most.
        """
        if self._percent is None:
            return self._free(at)
        credit = self._credit + self._percent
        if credit >= WHOLE and (replica := self._free(at, self._chosen)) is not None:
            self._credit = credit - WHOLE
            return replica
        if (replica := self._free(at, self._others)) is not None:
            self._credit = min(credit, WHOLE * self.bounds.slots * len(self._chosen))
        return replica

    def _free(self, at: float, among: tuple[str, ...] | None = None) -> str | None:
        best, fewest = None, self.bounds.slots
        for replica in self._ready if among is None else among:
            running = self._running.get(replica, 0)
            if running < fewest and self._rests.get(replica, at) <= at:
                best, fewest = replica, running
                if not running:
                    break
        return best
