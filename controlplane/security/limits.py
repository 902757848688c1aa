"""How often somebody may ask: budgets in fixed windows, counted in this process and shared by way of Redis.

A request costs no round trip: each process counts by itself, and a thread adds what it counted to Redis once a second
and learns what the others did. So a budget may be exceeded by what all processes take within that second. Without
Redis, or while it does not answer, each process goes by its own count: the limit is then wider, never open.
"""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import redis
import structlog
from django.conf import settings

WINDOW = 10  # s; also the longest that somebody is sent away for
SYNC_SECONDS = 1.0
SILENCE_SECONDS = 5.0  # after Redis failed
TIMEOUT_SECONDS = 0.5  # of Redis; only the thread waits for it

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Budget:
    """So many requests in each window."""

    name: str
    per_second: float

    @property
    def most(self) -> int:
        """In a window."""
        return max(1, int(self.per_second * WINDOW))


class Bucket:
    """So many at once, and so many a second after that, of this process alone."""

    def __init__(self, per_second: float, most: float) -> None:
        self._rate, self._most = per_second, most
        self._left, self._at = most, float("-inf")
        self._lock = threading.Lock()

    def take(self, *, now: float | None = None) -> int:
        """Take one; 0, or the whole seconds until there is one again, when none was taken."""
        at = time.monotonic() if now is None else now
        with self._lock:
            if at > self._at:
                self._left = min(self._most, self._left + (at - self._at) * self._rate)
                self._at = at
            if self._left < 1.0 and self._rate <= 0.0:
                return WINDOW
            if self._left < 1.0:
                return max(1, math.ceil((1.0 - self._left) / self._rate))
            self._left -= 1.0
        return 0

    def wait(self) -> int:
        """The whole seconds until there is one; 0 if there is one now."""
        found = self.take()
        if not found:
            self.give()
        return found

    def give(self) -> None:
        """Put one back."""
        with self._lock:
            self._left = min(self._most, self._left + 1.0)


@dataclass
class Counts:
    """What was taken in the present window: by this process, by others as far as known, and what they know of ours."""

    window: int = -1
    own: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    others: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)


class Limits:
    """The counters of one process."""

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._clock: Callable[[], float] = time.time
        self._counts = Counts()
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, float, float], Bucket] = {}
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def take(self, budget: Budget, key: str, cost: int = 1, *, now: float | None = None) -> int:
        """Take from a budget; 0, or the whole seconds until there is some again, when nothing was taken."""
        at = self._clock() if now is None else now
        name = f"{budget.name}:{key}"
        with self._lock:
            self._turn(int(at // WINDOW))
            counts = self._counts
            if counts.own[name] + counts.others.get(name, 0) + cost > budget.most:
                return max(1, int(WINDOW - at % WINDOW) + 1)
            counts.own[name] += cost
            if self._url and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="limits", daemon=True)
                self._thread.start()
        return 0

    def give(self, budget: Budget, key: str, cost: int = 1) -> None:
        """Put back what was taken in this window."""
        name = f"{budget.name}:{key}"
        with self._lock:
            self._counts.own[name] = max(0, self._counts.own[name] - cost)

    def bucket(self, name: str, per_second: float, most: float) -> Bucket:
        """The bucket of this name, which all of the process take from."""
        with self._lock:
            return self._buckets.setdefault((name, per_second, most), Bucket(per_second, most))

    def forget(self, clock: Callable[[], float] = time.time) -> None:
        """Begin anew, with windows by this clock (s)."""
        with self._lock:
            self._clock = clock
            self._counts = Counts()
            self._buckets.clear()

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(2 * SYNC_SECONDS)

    def sync(self, server: "redis.Redis") -> None:
        """Tell Redis what was counted since, and learn what others did. Raises RedisError."""
        with self._lock:
            counts = self._counts
            told = dict(counts.own)  # also what has not grown: others may have counted it
            added = {name: n - counts.told.get(name, 0) for name, n in told.items()}
        if not told:
            return
        with server.pipeline(transaction=False) as pipe:
            for name, more in added.items():
                key = f"weft:limit:{counts.window}:{name}"
                pipe.incrby(key, more)
                pipe.expire(key, 2 * WINDOW)
            totals = pipe.execute()[::2]
        with self._lock:
            for (name, n), total in zip(told.items(), totals, strict=True):
                counts.told[name] = n
                counts.others[name] = max(0, int(total) - n)

    def _turn(self, window: int) -> None:
        """Begin the next window; a clock that goes back stays in the present one."""
        if window > self._counts.window:
            self._counts = Counts(window)

    def _run(self) -> None:
        server = redis.Redis.from_url(self._url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS)
        is_failing = False
        while not self._end.wait(SILENCE_SECONDS if is_failing else SYNC_SECONDS):
            try:
                self.sync(server)
                is_failing = False
            except redis.RedisError as error:
                if not is_failing:
                    log.warning("limits: each process counts by itself", error=str(error))
                is_failing = True


_of_process: Limits | None = None


def of_process() -> Limits:
    """The counters of this process."""
    global _of_process
    if _of_process is None:
        _of_process = Limits(settings.REDIS_URL)
    return _of_process
