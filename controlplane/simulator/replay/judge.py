"""What the requests of a replayed service meet: which replicas serve when, and how many requests are late.

Requests come one by one, as in the simulated cluster (controlplane/cluster/serving), and the same ones in each replay
of an episode. To be quick, not every minute is looked at. One is, if

- replicas came or left in it or within LOOK_SECONDS before it,
- more requests are expected in it than in the last one looked at, by the factor MORE,
- of that one, more than the part TROUBLE was late, or replicas were in use for more than the part FULL of it: then
  chance decides how the next one goes, or
- it is EVERY_SECONDS since that one.

Each look begins WARM_SECONDS earlier, so that a queue stands as it would. A minute that is not looked at counts as
the last one that was, by the requests expected in it; one in which no replica serves has all of them refused.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from autoscaler.bounds import Bounds
from autoscaler.law import State as Remembered
from autoscaler.limits import Limits
from autoscaler.metrics import Objective, ServiceMetrics
from autoscaler.observed import NONE, Scrape
from autoscaler.scale import judged, with_limit
from autoscaler.settings import Settings
from autoscaler.vertical import relearned
from controlplane.cluster.physics import START_MEDIAN
from controlplane.cluster.serving.run import Run, State
from controlplane.cluster.serving.scraped import scrape
from controlplane.cluster.serving.traffic import BLOCK_SECONDS, Drawn, Floats
from controlplane.simulator.replay.serving import Service
from scheduler.model.workload import Kind

MINUTE = 60.0
WARM_SECONDS = BLOCK_SECONDS
LOOK_SECONDS, EVERY_SECONDS = 600.0, 600.0
MORE, TROUBLE, FULL = 1.03, 0.003, 0.8
# Latencies are counted between bounds 2 % apart: an exact p95 would need all of them.
BOUNDS = 0.001 * 1.02 ** np.arange(600)


@dataclass(slots=True, eq=False)
class Tally:
    """Requests that ended. late: over the objective, failed or refused. answered: by latency, between BOUNDS."""

    requests: float = 0.0
    late: float = 0.0
    answered: Floats = field(default_factory=lambda: np.zeros(len(BOUNDS) + 1))

    def add(self, other: "Tally", times: float = 1.0) -> None:
        """Count another's too, so many times."""
        self.requests += times * other.requests
        self.late += times * other.late
        self.answered += times * other.answered

    @property
    def late_ratio(self) -> float:
        """Part 0..1 of the requests; 0 of none."""
        return self.late / self.requests if self.requests else 0.0

    @property
    def p95_seconds(self) -> float | None:
        """Of the requests that were answered, within 2 %; None if none was."""
        total = float(self.answered.sum())
        if total <= 0:
            return None
        place = int(np.searchsorted(np.cumsum(self.answered), 0.95 * total))
        return float(BOUNDS[min(place, len(BOUNDS) - 1)])


@dataclass(frozen=True, slots=True)
class _Look:
    """The last minute that was looked at."""

    until: float
    expected: float  # requests
    tally: Tally
    scrape: Scrape
    duty: float  # part of the replicas' time in which they were in use


class Judge:
    """One service in a replay. is_thorough: every minute is looked at."""

    def __init__(self, service: Service, at: float, *, is_thorough: bool = False) -> None:
        self.service, self.tally = service, Tally()
        self._is_thorough = is_thorough
        self._at = self._known = at  # counted up to, and told of its replicas up to
        self._starts: dict[str, float] = {}  # from when on each replica serves
        self._serving: tuple[str, ...] = ()
        # What serves from then on, its limit, and how many of it are on one GPU; not yet counted.
        self._changes: list[tuple[float, tuple[str, ...], int, int]] = []
        self._changed_at = at
        self._begun: tuple[float, Drawn, Run] | None = None  # since when requests come
        self._last: _Look | None = None
        self._scrape: Scrape | None = None
        self._remembered: Remembered | None = None
        self._asleep: set[str] = set()
        self._limit, self._beside = 0, 1

    # --- replicas -----------------------------------------------------------------------------

    def place(
        self,
        at: float,
        names: Iterable[str],
        start_seconds: float,
        asleep: Collection[str] = (),
        limit: int = 0,
        beside: int = 1,
    ) -> None:
        """From `at` on these are its replicas. New ones serve so much later; what is gone takes nothing more.

        asleep: those of them on standby, to which no request comes. limit: of their shares, milli-GPU, where it counts;
        beside: how many of them are on one GPU, at most.
        """
        self._tell(at)
        if (limit, beside) != (self._limit, self._beside):
            self._limit, self._beside = limit, beside
            if self._serving:
                self._changes.append((at, self._serving, limit, beside))
        before = self._starts
        self._starts = {name: before.get(name, at + start_seconds) for name in names}
        self._asleep = set(asleep)
        self._note(at)

    def _tell(self, at: float) -> None:
        for start in sorted({start for start in self._starts.values() if self._known < start <= at}):
            self._note(start)
        self._known = at

    def _note(self, at: float) -> None:
        up = (name for name, start in self._starts.items() if start <= at and name not in self._asleep)
        serving = tuple(sorted(up))
        if serving != self._serving:
            self._serving = serving
            self._changes.append((at, serving, self._limit, self._beside))

    def wanted(
        self,
        at: float,
        count: int,
        bounds: Bounds,
        settings: Settings,
        *,
        has_standby: bool = False,
        is_slow: bool = False,
        limits: Limits | None = None,
    ) -> tuple[int, int | None]:
        """How many replicas the autoscaler wants now, by what it was shown of the minutes so far; and another limit.

        limits: what the limit of its replicas may be now, where it may be raised. None: the limit stays.
        """
        if not self.service.is_scaled or (bounds.least == bounds.most and limits is None):
            return count, None
        promise = self.service.objective
        objective = None if promise is None else Objective(promise.seconds, of=promise.of)
        key, ready = self.service.rate.key, len(self._serving)
        state = self._remembered if limits is None else relearned(self._remembered, self._limit)
        start = START_MEDIAN[Kind.INFERENCE]
        seen = ServiceMetrics(key, objective, self._scrape, state, ready, start, limits=limits)
        # A replay looks once a minute, so four looks are four minutes.
        minutes = replace(settings, stale_seconds=max(settings.stale_seconds, 4 * MINUTE))
        state, wanted = judged(count, at, seen, minutes, has_standby=has_standby, is_slow=is_slow)
        self._remembered, fit = with_limit(state, wanted, seen, minutes, count, bounds, at)
        return bounds.clamp(fit.wanted.replicas), fit.limit

    # --- requests -----------------------------------------------------------------------------

    def to(self, until: float) -> None:
        """Count the requests up to `until`, a minute at most from the call before."""
        self._tell(until)
        since, self._at = self._at, until
        if self._begun is None and self._changes:
            began = self._changes[0][0] if self.service.since is None else since
            self._begun = self._begin(began)
        if self._begun is None:
            return
        began, traffic, _ = self._begun
        since = max(since, began)
        if until <= since:
            return
        expected = _expected(traffic, since, until)
        if not self._serving and not self._changes:
            self.tally.add(Tally(expected, expected))
            self._scrape = Scrape(until, until - since, expected, 0.0, NONE, 0, 0, 0)
        elif self._is_worth_a_look(since, until, expected):
            self._look(since, until, expected)
        else:
            self._repeat(since, until, expected)

    def _begin(self, at: float) -> tuple[float, Drawn, Run]:
        since = self.service.since
        traffic = self.service.traffic(at if since is None else since)
        run = Run(traffic, self.service.setup, State.begin(at))
        run.skip(at)
        return at, traffic, run

    def _is_worth_a_look(self, since: float, until: float, expected: float) -> bool:
        last = self._last
        if self._changes:
            self._changed_at = self._changes[-1][0]
        if self._is_thorough or last is None or self._changes or until - self._changed_at <= LOOK_SECONDS:
            return True
        is_more = expected / (until - since) > MORE * last.expected / last.scrape.seconds
        return is_more or last.duty > FULL or last.tally.late_ratio > TROUBLE or until - last.until >= EVERY_SECONDS

    def _look(self, since: float, until: float, expected: float) -> None:
        assert self._begun is not None  # noqa: S101 - `to` began it
        began, _, run = self._begun
        warm = max(began, since - WARM_SECONDS)
        if run.state.at < warm:
            run.skip(warm)
        for at, names, limit, beside in self._changes:
            run.change(at, self.service.replicas(names, limit, beside))
        self._changes.clear()
        run.to(until)
        seconds = until - since
        seen, ended = run.window(seconds), run.outcomes
        mine = ended.is_answered & (ended.ended >= since)
        places = np.searchsorted(BOUNDS, ended.promised[mine])
        counts = np.bincount(places, ended.count[mine], len(BOUNDS) + 1).astype(np.float64)
        tally = Tally(float(seen.requests), float(seen.over), counts)
        self._scrape = scrape(run, len(self._serving), seconds)
        self._last = _Look(until, expected, tally, self._scrape, seen.duty)
        self.tally.add(tally)

    def _repeat(self, since: float, until: float, expected: float) -> None:
        assert self._last is not None  # noqa: S101 - else there would have been a look
        seconds, last = until - since, self._last
        # By the requests themselves: minutes are looked at when more are expected than come on average.
        times = expected / last.tally.requests if last.tally.requests else 0.0
        self.tally.add(last.tally, times)
        self._scrape = replace(
            last.scrape,
            at=until,
            seconds=seconds,
            arrived=times * last.scrape.arrived,
            answered_seconds=times * last.scrape.answered_seconds,
            counts=tuple(times * count for count in last.scrape.counts),
            first=None if last.scrape.first is None else tuple(times * count for count in last.scrape.first),
            waiting=0,
        )


def _expected(traffic: Drawn, since: float, until: float) -> float:
    """Requests that come in this time on average, by the rates at a quarter and at three quarters of it."""
    half = (until - since) / 2
    return (traffic.at(since + half / 2) + traffic.at(until - half / 2)) * half
