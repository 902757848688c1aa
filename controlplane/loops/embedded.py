"""All loops in one thread, on the simulated cluster's clock.

One round at a time: the clock moves to the next moment at which anything happens, what is due is submitted, and the
loops run, the same `run_once` functions as in production. Between rounds nothing decides anything, so a slow machine
or a high speed only changes how long it takes; the decisions of a preset and seed are always the same. Users act
between rounds; they wake the driver.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import structlog
from django.db import close_old_connections, connection

from controlplane.cluster.simulated import SimulatedCluster
from controlplane.loops import account, actuate, audit, observe, predict_starts, scale, schedule, wiring
from controlplane.loops.wiring import Wiring
from controlplane.runtime.wake import Bell, bell
from controlplane.services.scheduling import changes
from controlplane.services.workloads import arrivals
from controlplane.simulator.worlds.presets import Arrival, Preset

POLL_SECONDS = 0.25  # of real time: how soon a pause or another speed is seen
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 30.0  # of real time, after a loop failed
BATCH = 100  # arrivals in one transaction: users' writes wait that long at most

log = structlog.get_logger(__name__)


@dataclass
class Timer:
    """When a loop is due again, on the cluster's clock."""

    period: float
    due: float = 0.0

    def is_due(self, at: float) -> bool:
        """Whether the loop is to run in the round at this time; it then is due a period later."""
        if at < self.due:
            return False
        self.due = (math.floor(at / self.period) + 1) * self.period
        return True


@dataclass
class Health:
    """How one loop fares: failures in a row, and when it may be tried again (monotonic seconds)."""

    failures: int = 0
    not_before: float = 0.0


class Submissions:
    """The preset's arrivals that are not in the database yet."""

    def __init__(self, preset: Preset) -> None:
        self._preset = preset
        self._submitted = 0
        self._rest: Iterator[Arrival] = iter(())
        self._next: Arrival | None = None
        self._rewind()

    @property
    def next_at(self) -> float | None:
        """When the next one is due; None after the last."""
        return None if self._next is None else self._next.at

    def submit(self, at: float) -> bool:
        """Submit all that are due at this time; tell whether there were any."""
        due: list[Arrival] = []
        while self._next is not None and self._next.at <= at:
            due.append(self._next)
            self._next = next(self._rest, None)
        self._submit(due)
        return bool(due)

    def submit_early(self, count: int, at: float) -> None:
        """Submit the next so many now, as if all had come early."""
        early = [arrival for arrival in (self._next, *islice(self._rest, count - 1)) if arrival is not None]
        self._next = next(self._rest, None)
        self._submit([replace(arrival, at=at) for arrival in early])

    def _submit(self, due: Sequence[Arrival]) -> None:
        try:
            for first in range(0, len(due), BATCH):
                batch, world = due[first : first + BATCH], self._preset.identity
                self._submitted = arrivals.submit(arrivals=batch, seen=self._submitted, world=world)
        except Exception:
            self._rewind()
            raise

    def _rewind(self) -> None:
        """Go to the first arrival that is not in the database."""
        self._submitted = arrivals.submitted()
        self._rest = islice(iter(self._preset.arrivals), self._submitted, None)
        self._next = next(self._rest, None)


class Driver:
    """Runs a preset on a simulated cluster, in one thread.

    `contain`: a loop that fails is logged and tried again, while the others go on; without it the failure is raised.
    """

    def __init__(self, wiring: Wiring, preset: Preset, listen_to: Bell = bell, *, contain: bool = True) -> None:
        if not isinstance(wiring.cluster, SimulatedCluster):
            raise TypeError("the embedded driver moves a clock, and only the simulated cluster has one to move")
        self.wiring = wiring
        self.cluster = wiring.cluster
        self.preset = preset
        self.rounds = 0
        self.health: dict[str, Health] = {}
        self._bell = listen_to
        self._contain = contain
        self._schedule = Timer(preset.pace.net)
        self._scale = Timer(preset.pace.scale)
        self._account = Timer(preset.pace.account)
        self._anchor = time.monotonic()  # when the cluster's clock was where it is
        self._arrivals = Submissions(preset)

    # --- rounds -------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The cluster's clock."""
        return self.cluster.now()

    @property
    def next_round(self) -> float:
        """The next slot in which anything happens."""
        moments: list[float | None] = [self._schedule.due, self._scale.due, self._account.due]
        moments += [self.cluster.next_event(), self._arrivals.next_at]
        soonest = min(moment for moment in moments if moment is not None)
        slot = self.preset.pace.slot
        return max(math.ceil(soonest / slot) * slot, self.now)

    def round(self, at: float, woken: bool = False) -> None:
        """Move the clock to `at` and let every loop that has a reason run once."""
        self.rounds += 1
        if at > self.now:
            self.cluster.advance(at)
        self._arrivals.submit(at)
        self._run("observe", observe.run_once)
        if self._scale.is_due(at):
            self._run("scale", scale.run_once)
        elif self.cluster.signals():
            self._run("scale", lambda wiring: scale.answer(wiring, self.cluster))
        if self._schedule.is_due(at) or woken or changes.are_there():
            self._run("schedule", schedule.run_once)
        self._run("actuate", actuate.run_once)
        if self._account.is_due(at):
            self._run("account", account.run_once)

    def crowd(self, count: int) -> None:
        """Submit the next so many arrivals at once and run a round: for benchmarks of full lists."""
        self._arrivals.submit_early(count, self.now)
        self.round(self.now)

    def run_to(self, at: float, progress: Callable[[float], None] = lambda _: None) -> None:
        """Run every round up to this moment of the cluster's clock, as fast as it goes."""
        if self.rounds == 0:
            self.round(self.now)
        while (moment := self.next_round) <= at:
            self.round(max(moment, self.now))
            progress(self.now)

    @property
    def is_over(self) -> bool:
        """Whether nothing will arrive any more."""
        return self._arrivals.next_at is None

    # --- pace ---------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Run at the database's speed until `stop`: the body of the embedded thread. It never raises."""
        self._bell.adopt()
        failures = 0
        while not stop.is_set():
            try:
                if self.rounds == 0:
                    self.round(self.now)
                self._pace(stop)
                failures = 0
            except Exception:
                failures += 1
                log.exception("the embedded driver failed; it tries again", failures=failures)
                _reconnect()
                stop.wait(_backoff(failures))

    def _pace(self, stop: threading.Event) -> None:
        """Wait for the next round, or for a user, and run it."""
        start, moment = self.now, self.next_round
        reached = start
        while not stop.is_set():
            speed, paused = arrivals.pace()
            now = time.monotonic()
            if not paused:
                reached += (now - self._anchor) * speed
            self._anchor = now
            if reached >= moment:
                self.round(moment)
                self._run("audit", audit.run_once)  # by real time, so not a part of a round: it decides nothing
                self._run(predict_starts.LOOP, predict_starts.run_once)
                return
            if self._bell.answer():
                slot = self.preset.pace.slot
                self.round(max(start, math.floor(reached / slot) * slot), woken=True)
                return
            self._bell.wait(POLL_SECONDS if paused else min(POLL_SECONDS, (moment - reached) / speed))

    # --- parts of a round ---------------------------------------------------------------------

    def _run(self, name: str, run_once: Callable[[Wiring], object]) -> None:
        """Run one loop once; a failure is logged and tried again later."""
        health = self.health.setdefault(name, Health())
        if time.monotonic() < health.not_before:
            return
        try:
            run_once(self.wiring)
        except Exception:
            if not self._contain:
                raise
            health.failures += 1
            health.not_before = time.monotonic() + _backoff(health.failures)
            log.exception("loop failed", loop=name, failures=health.failures, at=self.now)
            _reconnect()
        else:
            health.failures = 0


def run(preset: Preset, stop: threading.Event) -> None:
    """The body of the embedded thread: drive this world until `stop`. A cluster's file belongs to its thread."""
    failures = 0
    while not stop.is_set():
        try:
            Driver(wiring.simulated(preset), preset).run(stop)
        except Exception:
            failures += 1
            log.exception("the loops could not start; they try again", failures=failures)
            stop.wait(_backoff(failures))


def _reconnect() -> None:
    """Have the next statement open a new connection if this one has broken."""
    if not connection.in_atomic_block:
        close_old_connections()


def _backoff(failures: int) -> float:
    return float(min(BACKOFF_SECONDS * 2 ** (failures - 1), MAX_BACKOFF_SECONDS))
