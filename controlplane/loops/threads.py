"""The loops of a production process: one thread each, woken by hints, by what the cluster tells, and by their periods.

A thread has its own wiring, database connection and lease, so a loop never runs twice at once in a process, and no
loop waits for another. A round that fails is logged and tried again soon; a round that takes long has its lease
renewed meanwhile, up to a limit: a process that hangs loses it, and the process says so (`is_turning`).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import close_old_connections, connection

from controlplane.cluster.port import Cluster
from controlplane.domain.deciders import SCHEDULE
from controlplane.kubeobjects.port import Objects
from controlplane.loops import (
    account,
    actuate,
    adopt,
    audit,
    intake,
    notify,
    observe,
    predict_starts,
    prune,
    publish,
    scale,
    schedule,
    simulated_clock,
    wiring,
)
from controlplane.loops import lease as leases
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.runtime import tuning, wake
from controlplane.services.scheduling import heartbeats
from scheduler.policies.warm import warm

# Seconds; hints come between. Where queues in front of services tell what waits, they are asked each second.
SCALE_SECONDS = 1 if settings.ACTIVATORS else 15
PERIODS = {
    "observe": 5, "schedule": 5, "actuate": 5, publish.LOOP: 5, "scale": SCALE_SECONDS, "account": 60, "audit": 60,
    predict_starts.LOOP: 15, "notify": 5, "prune": 60, adopt.LOOP: 2, intake.LOOP: 2,
}  # fmt: skip
# After a round, so that what comes in a burst is answered by one round. Not before it: what comes alone is answered at
# once.
REST_SECONDS = 0.05
STANDBY_REST_SECONDS = 0.25  # the same without a lease: hints are for the holder, but one may be its good-bye
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 5.0  # after a failure
LONGEST_ROUND_SECONDS = 120.0  # a round that is not over by then hangs: its lease is not renewed any more
RENEW_SECONDS = 2.0
YOUNG = 0.1  # of the lease's time: a round begins with most of it before it, and nearly all are over by then
STANDBY_SECONDS = 1.0  # another process holds the lease: look again so soon, as that one may be gone
MISSED_PERIODS = 3  # a thread that has not come round for so long is stuck (docs/promises.md, L8)
MIN_PATIENCE_SECONDS = 30.0

LISTENER = "observe"  # the loop that the cluster's own news wake; those of our custom resources wake `intake`

log = structlog.get_logger(__name__)


def _observe(wired: Wiring) -> Report:
    simulated_clock.follow(wired)
    return observe.run_once(wired)


LOOPS: Mapping[str, Callable[[Wiring], Report]] = {
    "observe": _observe,
    "schedule": schedule.run_once,
    "actuate": actuate.run_once,
    publish.LOOP: publish.run_once,
    "scale": scale.run_once,
    "account": account.run_once,
    "audit": audit.run_once,
    predict_starts.LOOP: predict_starts.run_once,
    "notify": notify.run_once,
    "prune": prune.run_once,
    **({adopt.LOOP: adopt.run_once} if settings.ADMISSION else {}),
}
OF_KUBERNETES: Mapping[str, Callable[[Wiring], Report]] = {intake.LOOP: intake.run_once}


def of_settings() -> dict[str, Callable[[Wiring], Report]]:
    """The loops that this installation has."""
    return {**LOOPS, **(OF_KUBERNETES if settings.CLUSTER == "kubernetes" else {})}


@dataclass
class Turning:
    """How one loop's thread fares. Times are monotonic seconds."""

    came_round_at: float = field(default_factory=time.monotonic)
    began_at: float | None = None  # of the round in progress
    took: float = 0.0  # seconds, the last round
    failures: int = 0  # in a row
    is_standby: bool = False  # another process runs this loop


class LoopThread:
    """Runs one loop until it is told to stop, then gives its lease back."""

    def __init__(
        self,
        name: str,
        run_once: Callable[[Wiring], Report],
        tell: Callable[[str, str, float], None] | None = None,
        period: float | None = None,
    ) -> None:
        self.name = name
        self.period = PERIODS[name] if period is None else period
        self.turning = Turning()
        self.lease: leases.Lease | None = None
        self._run_once = run_once
        self._tell = tell or (lambda loop, result, seconds: None)
        self._stop = threading.Event()
        self._bell = wake.bells[name]
        self._heard: Cluster | Objects | None = None  # whose news ring the bell
        self._thread = threading.Thread(target=self._run, name=f"loop-{name}", daemon=True)
        self._renewal: threading.Thread | None = None
        self._wired: Wiring | None = None

    def start(self) -> None:
        """Start turning."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the round in progress; do not wait."""
        self._stop.set()
        self._bell.set()

    def join(self, seconds: float) -> bool:
        """Wait for the end; tell whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def is_turning(self) -> bool:
        """Whether rounds come and go. One that fails counts: a restart would not mend the database."""
        patience = max(MISSED_PERIODS * self.period, MIN_PATIENCE_SECONDS)
        if self.turning.began_at is not None:
            patience = max(patience, LONGEST_ROUND_SECONDS)
        return self._thread.is_alive() and time.monotonic() - self.turning.came_round_at < patience

    @property
    def is_renewing(self) -> bool:
        """Whether a renewal of its lease has not been answered yet."""
        return self._renewal is not None and self._renewal.is_alive()

    def renew(self) -> None:
        """Begin to put the lease's expiry off if a round is in progress and not hanging; called by the keeper's thread.

        A thread of its own asks the database: while a round commits, its lease's row is locked, and no other lease may
        wait for that.
        """
        began = self.turning.began_at
        if self.lease is None or began is None or self.is_renewing:
            return
        if YOUNG * self.lease.ttl <= time.monotonic() - began <= LONGEST_ROUND_SECONDS:
            held = [self.lease, *(one for one in self._leases() if one is not self.lease)]
            self._renewal = threading.Thread(target=self._renew, args=(held,), name=f"renew-{self.name}")
            self._renewal.daemon = True  # one that hangs does not keep the process
            self._renewal.start()

    def _leases(self) -> list[leases.Lease]:
        """All that it holds: a round of one cell may take long while those of others wait for theirs."""
        return [] if self._wired is None else leases.held_for(self._wired, self.name)

    def _renew(self, held: Sequence[leases.Lease]) -> None:
        try:
            for lease in held:
                lease.renew_held()
        except Exception as error:  # the database does not answer: the round in progress will find out
            log.warning("lease not renewed", loop=self.name, error=str(error))
        finally:
            connection.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._bell.clear()  # before the round reads: a hint that comes from here on is for the next one
            self._round()
            if self.turning.failures:
                self._stop.wait(min(BACKOFF_SECONDS * 2 ** (self.turning.failures - 1), MAX_BACKOFF_SECONDS))
            elif not self._stop.wait(self._rest()):
                self._bell.wait(STANDBY_SECONDS if self.turning.is_standby else self.period)
        self._leave()

    def _rest(self) -> float:
        """Seconds before the next round at the earliest.

        News may come without end while much is bound: then the loop that hears them works half of the time, so that
        its rounds have more to read and leave the process to those that act.
        """
        if self.turning.is_standby:
            return STANDBY_REST_SECONDS
        return max(REST_SECONDS, self.turning.took) if self.name == LISTENER else REST_SECONDS

    def _round(self) -> None:
        turning, began = self.turning, time.monotonic()
        turning.began_at = began
        try:
            wired = self._wired = wiring.of(self.name)
            self.lease = leases.of(wired, self.name)
            self._listen(wired)
            report = self._run_once(wired)
            if turning.is_standby and not report.is_standby:
                self._bell.set()  # news that came meanwhile were still left to the other one
            turning.is_standby = report.is_standby
            if not report.is_standby:
                heartbeats.beat(loop=self.name, holder=wired.holder, took=report.took, error=report.skipped)
            turning.failures = 0
            result = "standby" if report.is_standby else "skipped" if report.skipped else "done"
        except Exception as error:  # whatever it is, the others must go on, and so must this one
            turning.failures += 1
            result = "failed"
            log.exception("loop failed", loop=self.name, failures=turning.failures, error=str(error))
            _reconnect()
            self._tell_failure(f"{type(error).__name__}: {error}")
        turning.began_at, turning.came_round_at = None, time.monotonic()
        turning.took = turning.came_round_at - began
        self._tell(self.name, result, turning.took)

    def _listen(self, wired: Wiring) -> None:
        """Have the news ring that this loop reads, if it reads any; before the round reads."""
        source = {LISTENER: wired.cluster, intake.LOOP: wired.objects}.get(self.name)
        if source is not None and self._heard is not source:
            self._heard = source
            source.on_news(self._hear)

    def _hear(self) -> None:
        """The cluster has news: ring, but for another process's loop, or for what this thread itself has done."""
        if not self.turning.is_standby and threading.get_ident() != self._thread.ident:
            self._bell.set()

    def _tell_failure(self, error: str) -> None:
        try:
            heartbeats.beat(loop=self.name, holder=wiring.of(self.name).holder, took=0.0, error=error)
        except Exception:  # the database itself: then the heartbeat's age tells
            _reconnect()

    def _leave(self) -> None:
        """Release the lease and wake the others: one of them may have taken this loop's hint for ours."""
        try:
            leases.release_all(wiring.of(self.name))
            wake.broadcast(self.name)
        except Exception as error:
            log.warning("lease not released", loop=self.name, error=str(error))
        finally:
            connection.close()


class Loops:
    """All loops of this process, and the thread that keeps their leases while rounds take long."""

    def __init__(
        self,
        tell: Callable[[str, str, float], None] | None = None,
        alive: Callable[[], None] = lambda: None,
        loops: Mapping[str, Callable[[Wiring], Report]] = LOOPS,
        renew_seconds: float = RENEW_SECONDS,
    ) -> None:
        self._renew_seconds = renew_seconds
        self.threads = [LoopThread(name, run_once, tell) for name, run_once in loops.items()]
        self._alive = alive
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def start(self) -> None:
        """Start all threads."""
        tuning.collect_less_often()
        tuning.take_turns_often()
        if SCHEDULE in (thread.name for thread in self.threads):
            warm()  # or the first round after a takeover would
        for thread in self.threads:
            thread.start()
        self._keeper.start()

    def stop(self) -> None:
        """Ask all to end; do not wait."""
        self._stop.set()
        for thread in self.threads:
            thread.stop()

    def join(self, seconds: float) -> bool:
        """Wait until all have ended and given their leases back; tell whether they did."""
        until = time.monotonic() + seconds
        ended = [thread.join(max(0.0, until - time.monotonic())) for thread in self.threads]
        self._keeper.join(max(0.0, until - time.monotonic()))
        return all(ended)

    @property
    def is_turning(self) -> bool:
        """Whether every loop of this process comes round."""
        return all(thread.is_turning for thread in self.threads)

    def _keep(self) -> None:
        while not self._stop.is_set():
            if self.is_turning:
                self._alive()
            for thread in self.threads:
                thread.renew()
            self._stop.wait(self._renew_seconds)


def _reconnect() -> None:
    """Have the next statement open a new connection if this one has broken."""
    if not connection.in_atomic_block:
        close_old_connections()
