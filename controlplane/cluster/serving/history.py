"""A service's requests as they follow from which replicas there were when."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.cluster.serving.run import Replica, Run, Setup, State
from controlplane.cluster.serving.split import Split
from controlplane.cluster.serving.traffic import Traffic

MINUTE = 60.0
MINUTES_KEPT = 60  # told in logs
STATES_KEPT = 16  # one a minute
LEFT_SECONDS = 600.0  # without any replica: then its clients have gone, until a replica is there, or a queue holds them


_NEWER: tuple[Any, ...] = ((), (), (), (), False)  # of fields that a row of an earlier version has not


@dataclass(frozen=True, slots=True)
class Capacity:
    """What serves from `at` on: replicas, requests at once in all of them, mean seconds of one request.

    each: (name, seconds of one request) of the replicas; lost: names of those that broke down at this moment;
    revisions: of each, where they are known; split: (revision, percent) of the requests, if they are split. is_kept:
    requests come also while there is no replica, as the queue in front holds them.
    """

    at: float
    replicas: int
    servers: int
    seconds: float
    each: tuple[tuple[str, float], ...] = ()
    lost: tuple[str, ...] = ()
    revisions: tuple[int, ...] = ()
    split: tuple[int, int] | None = None
    is_kept: bool = False

    @staticmethod
    def of(plain: Sequence[Any]) -> "Capacity":
        """From the fields in their order, as JSON has them."""
        at, replicas, servers, seconds, each, lost, revisions, split, is_kept = [
            *plain, *(_NEWER[len(plain) - 4 :])
        ]  # fmt: skip
        pairs = tuple((name, s) for name, s in each)
        parts = (split[0], split[1]) if split else None
        return Capacity(at, replicas, servers, seconds, pairs, tuple(lost), tuple(revisions), parts, is_kept)

    def serving(self, batch: int) -> tuple[Replica, ...]:
        """The replicas; where requests are served in batches, those that a replica takes at once share a slot."""
        slots = self.servers // self.replicas if self.replicas else 0
        each = self.each or tuple((str(number), self.seconds) for number in range(self.replicas))
        revisions = self.revisions or (0,) * len(each)
        pairs = zip(each, revisions, strict=True)
        return tuple(Replica(name, slots // batch, seconds, revision) for (name, seconds), revision in pairs)

    def begin(self, run: Run, at: float, lost: tuple[str, ...] = ()) -> None:
        """Have a run go on with it from `at` on."""
        run.change(at, self.serving(run.setup.batch), lost, Split(*self.split) if self.split else None)


@dataclass(frozen=True, slots=True)
class Minute:
    """How a service did in the minute before `at`."""

    at: float
    requests: int
    p95_seconds: float | None
    over: int
    replicas: int


@dataclass(slots=True, eq=False)
class Followed:
    """A run that is moved along a history of capacities."""

    run: Run
    minutes: deque[Minute] = field(default_factory=lambda: deque(maxlen=MINUTES_KEPT))
    states: deque[State] = field(default_factory=lambda: deque(maxlen=STATES_KEPT))

    @staticmethod
    def begin(traffic: Traffic, setup: Setup, state: State, minutes: Iterable[Minute] = ()) -> "Followed":
        """From a state on."""
        return Followed(Run(traffic, setup, state), deque(minutes, MINUTES_KEPT))

    def to(self, until: float, history: Sequence[Capacity]) -> None:
        """Let happen all that comes before `until`; history is in order of time and reaches back to the run's time."""
        run = self.run
        for capacity in [c for c in history if run.state.at <= c.at < until]:
            self._pass(capacity.at, history)
            capacity.begin(run, capacity.at, capacity.lost)
        self._pass(until, history)

    def jump(self, since: float, until: float, history: Sequence[Capacity]) -> None:
        """Let happen what comes before `since`, and nothing from then until `until`."""
        self.to(since, history)
        last = next((c for c in reversed(history) if c.at < until), None)
        self.run.skip(until)
        if last is not None and last.at >= since:
            last.begin(self.run, until)

    def _pass(self, until: float, history: Sequence[Capacity]) -> None:
        """To a time up to which nothing changes."""
        run = self.run
        now = next((c for c in reversed(history) if c.at <= run.state.at), None)
        last, is_kept = (run.state.at, False) if now is None else (now.at, now.is_kept)
        stays = until if len(run.state.free) or is_kept else min(until, last + LEFT_SECONDS)
        while run.state.at < stays:
            run.to(min(stays, (run.state.at // MINUTE + 1) * MINUTE))
            if run.state.at % MINUTE == 0:
                self._note()
        if run.state.at < until:
            run.skip(until)

    def _note(self) -> None:
        run = self.run
        seen = run.window(MINUTE)
        count = len(run.state.replicas)
        self.minutes.append(Minute(run.state.at, seen.requests, seen.p95_seconds, seen.over, count))
        self.states.append(run.state.copy())
