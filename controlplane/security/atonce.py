"""How much of something each caller has open, over all processes: streams, waits, requests that are dear to answer.

Each opening is an entry of its own in Redis, with the moment until which it counts; the process that made it moves that
moment on while it is open, so that what a killed process had open is forgotten within LIFE. One round trip for what is
opened, none for what is closed. Without Redis, or while it does not answer, each process goes by its own count: the
limit is then wider, never open.
"""

import queue
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Hashable

import redis
import structlog
from django.conf import settings

from controlplane.security.limits import SILENCE_SECONDS, TIMEOUT_SECONDS

LIFE = 30.0  # s that an entry counts for, unless its process says that it is still open
BEAT = 10.0  # s between two times that a process says so
PREFIX = "weft:open:"

log = structlog.get_logger(__name__)


class AtOnce:
    """What this process has open, and what all have together."""

    def __init__(self, url: str = "") -> None:
        self._server = None
        if url:
            waits = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
            self._server = redis.Redis.from_url(url, **waits)
        self._name = secrets.token_hex(8)
        self._entries: defaultdict[str, list[str]] = defaultdict(list)
        self._count = 0
        self._lock = threading.Lock()
        self._untold: defaultdict[str, set[str]] = defaultdict(set)  # closed here, and Redis may not know it yet
        self._closed: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._silent_until = 0.0  # monotonic clock

    def enter(self, what: str, who: Hashable, most: int) -> bool:
        """Count one more, unless there are so many."""
        key = f"{what}:{who}"
        with self._lock:
            if len(self._entries[key]) >= most:
                return False
            self._count += 1
            entry = f"{self._name}:{self._count}"
            self._entries[key].append(entry)
        if self._is_room(key, entry, most):
            return True
        self.leave(what, who)
        return False

    def leave(self, what: str, who: Hashable) -> None:
        """Count one less."""
        key = f"{what}:{who}"
        with self._lock:
            entries = self._entries.get(key)
            entry = entries.pop() if entries else ""
            if not entries:
                self._entries.pop(key, None)
            if entry and self._server is not None:
                self._untold[key].add(entry)
        if entry and self._server is not None:
            self._closed.put((key, entry))

    def own(self, what: str, who: Hashable) -> int:
        """How many this process has open."""
        with self._lock:
            return len(self._entries.get(f"{what}:{who}", ()))

    def beat(self) -> None:
        """Say of all that is open here that it still is. Raises RedisError."""
        with self._lock:
            mine = {key: list(entries) for key, entries in self._entries.items() if entries}
        if self._server is None or not mine:
            return
        until = time.time() + LIFE
        with self._server.pipeline(transaction=False) as pipe:
            for key, entries in mine.items():
                pipe.zadd(PREFIX + key, dict.fromkeys(entries, until))
                pipe.expire(PREFIX + key, int(2 * LIFE))
            pipe.execute()

    def stop(self) -> None:
        """End the thread."""
        self._closed.put(None)
        if self._thread is not None:
            self._thread.join(2 * TIMEOUT_SECONDS)

    def _is_room(self, key: str, entry: str, most: int) -> bool:
        """Whether all processes together have no more than so many, with this one."""
        if self._server is None or time.monotonic() < self._silent_until:
            return True
        self._start()
        now, name = time.time(), PREFIX + key
        with self._lock:
            closed = tuple(self._untold.get(key, ()))
        try:
            with self._server.pipeline() as pipe:
                if closed:  # else a caller with one request after the other would be told that it has many at once
                    pipe.zrem(name, *closed)
                pipe.zremrangebyscore(name, "-inf", now)
                pipe.zadd(name, {entry: now + LIFE})
                pipe.zcard(name)
                pipe.expire(name, int(2 * LIFE))
                open_ = pipe.execute()[-2]
        except redis.RedisError as error:
            self._fell_silent(error)
            return True
        return int(open_) <= most

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="at once", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Tell of what is closed at once, and of what is open now and then."""
        following = time.monotonic() + BEAT
        while True:
            try:
                closed = self._closed.get(timeout=max(0.0, following - time.monotonic()))
                if closed is None:
                    return
                self._tell(*closed)
            except queue.Empty:
                following = time.monotonic() + BEAT
                try:
                    self.beat()
                except redis.RedisError as error:
                    self._fell_silent(error)
            except redis.RedisError as error:  # it is forgotten there by itself
                self._fell_silent(error)

    def _tell(self, key: str, entry: str) -> None:
        """Tell Redis that one is closed; where that fails it is forgotten there by itself. Raises RedisError."""
        try:
            if self._server is not None:
                self._server.zrem(PREFIX + key, entry)
        finally:
            with self._lock:
                self._untold[key].discard(entry)
                if not self._untold[key]:
                    del self._untold[key]

    def _fell_silent(self, error: redis.RedisError) -> None:
        if time.monotonic() >= self._silent_until:
            log.warning("what is open at once: each process counts by itself", error=str(error))
        self._silent_until = time.monotonic() + SILENCE_SECONDS


_of_process: AtOnce | None = None


def of_process() -> AtOnce:
    """The counts of this process."""
    global _of_process
    if _of_process is None:
        _of_process = AtOnce(settings.REDIS_URL)
    return _of_process
