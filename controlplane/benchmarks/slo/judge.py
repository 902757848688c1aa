"""The judge: a service request by request, first come first served at one gateway, under a policy that sees scrapes.

A replica holds GPUs from the moment it is asked for until its last request has ended; it serves `start` seconds after
it was asked for. A replica that is let go takes no more requests, ends what it has, and is the first to come back.
The queue's inner loop is the one of the simulated cluster.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.observed import BUCKETS, NONE, Scrape
from controlplane.benchmarks.slo.looks import looked
from controlplane.benchmarks.slo.traces import Trace
from controlplane.cluster.serving.loops import serve
from scheduler.model.settings import Settings

SCRAPE_SECONDS = 15
LEND_AFTER = Settings().lend_after_seconds  # a replica is asleep for so long before the scheduler lends its GPU
LATE_PART = 0.05  # of a minute's arrivals: above it the minute is bad
MINUTE = 60.0
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Signal:
    """What the gateway sees within a second: requests that wait, those that came in the last 5 s, replicas."""

    at: float
    waiting: int
    rate: float  # 1/s
    on: int
    ready: int  # those that serve now


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of a service at a scrape. scrape: what the law is shown of its requests.

    answered, busy count since the beginning: requests, and the time that replicas have worked on them, s. on: replicas
    that exist or are being started; ready: those that serve. slow: of those answered since the last look, the time that
    nine of ten have taken at most, their wait included, s; None: none was answered.
    """

    scrape: Scrape
    answered: int
    busy: float
    on: int
    ready: int
    slow: float | None = None

    @property
    def at(self) -> float:
        """When."""
        return self.scrape.at

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self.scrape.waiting or 0

    @property
    def running(self) -> int:
        """Requests that replicas work on."""
        return self.scrape.running or 0


@dataclass(frozen=True, slots=True)
class Policy:
    """What decides. look: at each scrape, the replicas wanted from now on. signal: the same, in each second in which a
    request waits; None: no change.
    """

    look: Callable[[Seen], int]
    signal: Callable[[Signal], int | None] | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it: arrivals by minute, how many of them were late, replica-hours, starts, changes of direction.

    waited: how many of those late would not have been, had they not waited. ready: replicas that serve, at each look.
    lends: how often a replica was let go and held nothing any more. resting: replica-hours of the first LEND_AFTER of
    each of these, in which the product does not lend yet; no part of `hours`.
    """

    arrivals: Ints
    late: Ints
    hours: float
    starts: int
    turns: int
    series: tuple[tuple[float, int], ...]  # replicas wanted, at each change
    waited: int = 0
    ready: tuple[int, ...] = ()
    lends: int = 0
    resting: float = 0.0

    @property
    def late_percent(self) -> float:
        """Of all arrivals."""
        return 100.0 * float(self.late.sum()) / max(1, int(self.arrivals.sum()))

    @property
    def bad_windows(self) -> tuple[int, ...]:
        """The minutes of which more than LATE_PART was late."""
        return tuple(np.flatnonzero(self.late > LATE_PART * self.arrivals).tolist())


@dataclass(slots=True)
class _Replica:
    since: float  # when it was asked for
    ready: float  # when it begins to serve
    free: list[float]  # when each slot is idle again; while it serves, the heap knows better
    left: float = 0.0  # when it was let go


class Service:
    """One service: its queue and replicas, which have slots; `batching.BatchingService` has replicas that batch."""

    def __init__(self, trace: Trace, start: float) -> None:
        count = len(trace.at)
        self.trace, self.start = trace, start
        self.on: dict[int, _Replica] = {}
        self.draining: dict[int, _Replica] = {}
        self.free, self.owner = np.empty(0), np.empty(0, dtype=np.int64)
        self.begun = self.number = self.starts = self.lends = self.answered = 0
        self.held = self.seconds = self.rested = 0.0
        self.asleep: list[float] = []  # since when those that were let go hold nothing, newest last
        self.began, self.ended = np.empty(count), np.full(count, math.inf)
        self.by, self.is_counted = np.empty(count, dtype=np.int64), np.zeros(count, dtype=np.int8)
        self._since = 0  # all requests before this one have ended, and were counted
        self._zeros, self._ones = np.zeros(0, dtype=np.int64), np.ones(0)  # an entry for each replica there ever was

    def serve(self, until: float) -> None:
        """Let all begin that can before `until`."""
        at = self.trace.at
        if len(self.free) and self.begun < len(at) and at[self.begun] < until:
            if len(self._ones) < self.number:
                self._ones = np.ones(2 * self.number)
            service = self.trace.service
            self.begun = serve(
                at, service, service, self.begun, until, self.free, self.owner, self._ones, 1, 0.0, math.inf,
                self.began, self.ended, self.by,
            )  # fmt: skip

    def resize(self, wanted: int, now: float) -> None:
        """Ask for replicas, or let the newest go."""
        if wanted == len(self.on):
            return
        self._note()
        while len(self.on) < wanted:
            if self.draining:
                number, replica = self.draining.popitem()
                replica.free = [max(free, now) for free in replica.free]  # what waits begins from now on
                self.on[number] = replica
                continue
            if self.asleep:  # woken first is what fell asleep last
                self.rested += min(LEND_AFTER, now - self.asleep.pop())
            self.on[self.number] = _Replica(now, now + self.start, [now + self.start] * self.trace.slots)
            self.number += 1
            self.starts += 1
        while len(self.on) > wanted:
            number, replica = self.on.popitem()
            if replica.ready > now:
                self.held += now - replica.since  # it never served
                self._sleeps(now)
            else:
                replica.left = now
                self.draining[number] = replica
        self._arrange(now)

    def let_go(self, now: float) -> None:
        """Replicas that have ended their last request hold nothing any more."""
        ended = {number: self._idle_since(number) for number in self.draining}
        for number in [n for n, idle in ended.items() if idle <= now]:
            replica = self.draining.pop(number)
            until = max(replica.left, ended[number])
            self.held += until - replica.since
            self._sleeps(until)

    def hours(self, now: float) -> float:
        """Replica-hours until now."""
        return (self.held + sum(now - one.since for one in (*self.on.values(), *self.draining.values()))) / 3600

    def resting(self, now: float) -> float:
        """Replica-hours until now of those that were let go and are not lent yet."""
        return (self.rested + sum(min(LEND_AFTER, max(0.0, now - since)) for since in self.asleep)) / 3600

    def _sleeps(self, since: float) -> None:
        self.lends += 1
        self.asleep.append(since)

    def arrived(self, now: float) -> int:
        """Requests that have come."""
        return int(self.trace.at.searchsorted(now))

    def ready(self, now: float) -> int:
        """Replicas that serve."""
        return sum([one.ready <= now for one in self.on.values()])

    def scrape(self, now: float) -> Seen:
        """What is seen now; those that ended since the last one are counted."""
        counts = np.zeros(len(BUCKETS))
        fresh, seconds, unfinished, inside, widest, slow = 0, 0.0, 0.0, 0, 0, 0.0
        if self._since < self.begun:
            fresh, seconds, unfinished, inside, widest, self._since, slow = looked(
                self.trace.at, self.began, self.ended, self.by, self.is_counted, self._since, self.begun, now, BUCKETS,
                counts, self._running(),
            )  # fmt: skip
        self.answered += fresh
        self.seconds += seconds
        arrived = self.arrived(now)
        seen = Scrape(
            at=now, seconds=SCRAPE_SECONDS, arrived=arrived - self.arrived(now - SCRAPE_SECONDS),
            answered_seconds=seconds, counts=tuple(counts.tolist()) if fresh else NONE, waiting=arrived - self.begun,
            running=inside, widest=widest,
        )  # fmt: skip
        busy = self.seconds + unfinished
        return Seen(seen, self.answered, busy, len(self.on), self.ready(now), slow if fresh else None)

    def saved(self) -> Any:
        """What to come back to."""
        return self.free.copy(), self.owner.copy(), self.begun

    def restore(self, saved: Any) -> None:
        """Go back to what was saved, once."""
        self.free, self.owner, self.begun = saved

    def _running(self) -> Ints:
        """An entry of 0 for each number that a request may have as its replica's."""
        if len(self._zeros) < self.number:
            self._zeros = np.zeros(2 * self.number, dtype=np.int64)
        return self._zeros

    def _note(self) -> None:
        """Before replicas change: when the slots of each are idle again."""
        for replica in self.on.values():
            replica.free = []
        for free, number in zip(self.free.tolist(), self.owner.tolist(), strict=True):
            self.on[number].free.append(free)

    def _arrange(self, now: float) -> None:  # noqa: ARG002 - the slots know already
        """After replicas changed: the heap of all slots."""
        slots = sorted((free, number) for number, one in self.on.items() for free in one.free)
        self.free = np.array([free for free, _ in slots])
        self.owner = np.array([number for _, number in slots], dtype=np.int64)

    def _idle_since(self, number: int) -> float:
        """When the last request ends that a replica has which was let go."""
        return max(self.draining[number].free)

    def signal(self, now: float) -> Signal:
        """What the gateway sees now."""
        arrived = self.arrived(now)
        lately, newest = (arrived - self.arrived(now - 5.0)) / 5.0, (arrived - self.arrived(now - 1.0))
        rate = max(lately, newest - 2.0 * math.sqrt(newest))
        return Signal(now, arrived - self.begun, rate, len(self.on), self.ready(now))


class Run:
    """A service under its policy, from look to look; `first` replicas are ready at the beginning."""

    def __init__(self, service: Service, policy: Policy, most: int, first: int = 1) -> None:
        self.service, self.policy, self.most = service, policy, most
        service.resize(first, -service.start)
        for replica in service.on.values():
            replica.since = 0.0
        service.starts = 0
        self.wanted, self.turns, self._last_way = first, 0, 0
        self.series = [(0.0, first)]
        self.ready = [first]

    def decide(self, number: int, now: float) -> None:
        """So many replicas from now on, within what the operator allows."""
        number = max(1, min(self.most, number))
        if number == self.wanted:
            return
        way = 1 if number > self.wanted else -1
        self.turns += way == -self._last_way
        self.wanted, self._last_way = number, way
        self.service.resize(number, now)
        self.series.append((now, number))

    def look(self, now: float) -> int:
        """The replicas that the policy wants at a scrape."""
        self.service.let_go(now)
        seen = self.service.scrape(now)
        self.ready.append(seen.ready)
        return self.policy.look(seen)

    def alarm(self, now: float) -> int | None:
        """The same in between, where a request waits and the policy listens to the gateway; None: no change."""
        signal = self.service.signal(now)
        return self.policy.signal(signal) if self.policy.signal and signal.waiting else None

    def judged(self, now: float) -> Judged:
        """What came of it; requests that came until now are served to their end."""
        service, trace = self.service, self.service.trace
        hours, resting = service.hours(now), service.resting(now)
        service.serve(math.inf)
        late = service.ended - trace.at > trace.objective
        minutes = (trace.at // MINUTE).astype(np.int64)
        arrivals, lates = np.bincount(minutes), np.bincount(minutes, weights=late).astype(np.int64)
        waited = int((late & (service.ended - service.began <= trace.objective)).sum())
        series, ready = tuple(self.series), tuple(self.ready)
        return Judged(arrivals, lates, hours, service.starts, self.turns, series, waited, ready, service.lends, resting)


def judge(
    trace: Trace, policy: Policy, *, start: float, most: int, first: int = 1, kind: type[Service] = Service
) -> Judged:
    """Run a trace under a policy, with `first` replicas ready at the beginning and `most` at any time."""
    run = Run(kind(trace, start), policy, most, first)
    now = 0.0
    while now < trace.seconds:
        _until(run, now, now + SCRAPE_SECONDS)
        now += SCRAPE_SECONDS
        run.decide(run.look(now), now)
    return run.judged(now)


def _until(run: Run, now: float, until: float) -> None:
    """To the next scrape; second by second where a request waits and the policy listens to the gateway."""
    service = run.service
    if run.policy.signal is None:
        service.serve(until)
        return
    first, saved = service.begun, service.saved()
    service.serve(until)
    begun = slice(first, service.begun)
    if service.begun == service.arrived(until) and not (service.began[begun] > service.trace.at[begun]).any():
        return
    service.restore(saved)
    for second in range(1, SCRAPE_SECONDS):
        service.serve(now + second)
        if (wanted := run.alarm(now + second)) is not None:
            run.decide(wanted, now + second)
    service.serve(until)
