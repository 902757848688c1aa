"""Requests that wait for events of the log: one thread of this process looks twice a second, however many wait.

Waiting costs no query and no thread of the server (asgi.Handler). Which of them may still wait is looked up for all at
once every RECHECK seconds: one whose session, token or role has changed is answered, and comes again with what it may
see now. One user has at most MAX_OPEN waits at once, in all processes together.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from django.db import DatabaseError, close_old_connections, connection
from rest_framework import exceptions

from controlplane.queries.accounts import viewers
from controlplane.queries.accounts.viewers import Viewer
from controlplane.queries.audit import feed
from controlplane.runtime.wake import stopping
from controlplane.security import atonce

if TYPE_CHECKING:
    from controlplane.models import Event

PERIOD = 0.5  # s between two looks
RECHECK = 2.0  # s after which rights are looked up again
MAX_OPEN = 50  # waits and streams of one user
MAX_BEHIND = 2_000  # events that a stream's reader may be behind before it is ended, to be opened again

log = structlog.get_logger(__name__)


class TooManyOpen(exceptions.APIException):  # noqa: N818 - reads as the fact it is
    """One user waits for too much at once."""

    status_code = 429
    default_detail = f"You have {MAX_OPEN} waits and streams open. End one, or watch all workloads in one stream."
    wait = 5  # s


@dataclass(eq=False)
class Inbox:
    """What one waits for and was told; filled by the feed's thread, read by an event loop or by a thread."""

    viewer: Viewer
    scope: feed.Scope
    after: int  # events up to this number were told already
    told: "deque[Event]" = field(default_factory=deque)
    is_over: bool = False  # nothing more comes: rights have ended, the server stops, or it was read too slowly
    _bell: threading.Event = field(default_factory=threading.Event)
    _ring: Callable[[], object] | None = None

    def put(self, event: "Event") -> None:
        """Tell an event, if it is one for this inbox."""
        if event.pk > self.after and self.scope.has(event):
            self.told.append(event)
            self.is_over |= len(self.told) > MAX_BEHIND

    def ring(self) -> None:
        """Wake all requests that wait."""
        (self._ring or self._bell.set)()

    def wait(self, seconds: float) -> None:
        """Wait in this thread until something is told, at most so long."""
        if not (self.told or self.is_over):
            self._bell.wait(seconds)
        self._bell.clear()

    async def wait_here(self, seconds: float) -> None:
        """Wait in the running event loop until something is told, at most so long."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._ring = lambda: loop.call_soon_threadsafe(event.set)
        if self.told or self.is_over:  # between the last look and this one
            return
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return


@dataclass
class Feed:
    """The one reader of a process; its thread lives as long as a request waits."""

    inboxes: set[Inbox] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    reader: feed.Reader | None = None
    checked: float = 0.0  # monotonic clock

    def join(self, viewer: Viewer, scope: feed.Scope, after: int | None = None) -> Inbox:
        """Fill a new inbox from now on; `after`: only with what has a higher number. Raises TooManyOpen."""
        if not atonce.of_process().enter("wait", viewer.user, MAX_OPEN):
            raise TooManyOpen
        with self.lock:
            if self.reader is None:
                self.reader = feed.Reader()
                threading.Thread(target=self._run, args=(self.reader,), name="feed", daemon=True).start()
            inbox = Inbox(viewer, scope, self.reader.last if after is None else after)
            self.inboxes.add(inbox)
        return inbox

    def leave(self, inbox: Inbox) -> None:
        """Fill it no more."""
        with self.lock:
            if inbox not in self.inboxes:
                return
            self.inboxes.remove(inbox)
        atonce.of_process().leave("wait", inbox.viewer.user)

    def _run(self, reader: feed.Reader) -> None:
        try:
            while not stopping.wait(PERIOD) and self._is_needed():
                try:
                    close_old_connections()
                    self._look(reader)
                except DatabaseError as error:  # the next look may work
                    log.warning("feed: no look", error=str(error))
        finally:
            connection.close()
            with self.lock:
                if (
                    self.reader is reader
                ):  # the server stops, or this thread has a fault: a request that waits comes again
                    self.reader = None
                    self._end(self.inboxes)

    def _is_needed(self) -> bool:
        """Whether a request waits; else the next one that does starts a new thread."""
        with self.lock:
            if not self.inboxes:
                self.reader = None
            return bool(self.inboxes)

    def _look(self, reader: feed.Reader) -> None:
        found = reader.read()
        with self.lock:
            inboxes = list(self.inboxes)
        self._end(self._gone(inboxes))
        with self.lock:
            for inbox in self.inboxes:
                for event in found:
                    inbox.put(event)
                if inbox.told or inbox.is_over:
                    inbox.ring()

    def _gone(self, inboxes: Iterable[Inbox]) -> list[Inbox]:
        """The requests that may wait no longer, if it is time to look."""
        if time.monotonic() - self.checked < RECHECK:
            return []
        self.checked = time.monotonic()
        away = viewers.gone(inbox.viewer for inbox in inboxes)
        return [inbox for inbox in inboxes if inbox.viewer in away]

    def _end(self, inboxes: Iterable[Inbox]) -> None:
        for inbox in inboxes:
            inbox.is_over = True
            inbox.ring()


FEED = Feed()


@contextmanager
def or_leave(inbox: Inbox) -> Iterator[Inbox]:
    """Leave again if what is done with the inbox fails."""
    try:
        yield inbox
    except BaseException:
        FEED.leave(inbox)
        raise
