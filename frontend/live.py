"""What has changed, told to every open page: one thread of this process looks once a second, however many watch.

A message names the parts that changed and carries the clock. It holds no data, so it may go to every viewer: each page
then fetches the parts it shows, within what its viewer may see. A stream ends within seconds of its viewer's session,
token or role. `STOP` ends all streams at once; the server's
shutdown sets it.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Set
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection

from controlplane.queries.accounts import viewers
from controlplane.queries.accounts.viewers import Viewer
from controlplane.queries.reports import dashboard
from controlplane.runtime.wake import stopping

PERIOD = 1.0  # s between two looks
CHECK = 2  # looks between two checks of which viewers may still watch
LIFE = 600.0  # s after which a stream ends and is opened again
STOP = stopping

log = structlog.get_logger(__name__)
Queue = asyncio.Queue[str | None]


@dataclass
class Watch:
    """The one watcher of a process; its thread lives as long as a page listens."""

    listeners: dict[Queue, tuple[asyncio.AbstractEventLoop, Viewer | None]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None

    def join(self, queue: Queue, viewer: Viewer | None) -> None:
        """Tell this queue from now on, as long as its viewer may watch."""
        with self.lock:
            self.listeners[queue] = (asyncio.get_running_loop(), viewer)
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self._run, name="live", daemon=True)
                self.thread.start()

    def leave(self, queue: Queue) -> None:
        """Tell it no more."""
        with self.lock:
            self.listeners.pop(queue, None)

    def _run(self) -> None:
        seen: dict[str, Any] = {}
        looks = 0
        while not STOP.wait(PERIOD):
            with self.lock:
                if not self.listeners:
                    self.thread = None
                    break
            try:
                close_old_connections()
                now = dashboard.versions()
                looks += 1
                if looks % CHECK == 0:
                    self._see_off()
            except DatabaseError as error:  # a page says itself that it is stale; the next look may work
                log.warning("live: no look", error=str(error))
                continue
            changed = sorted(part for part, version in now.items() if seen.get(part, version) != version)
            if changed or not seen:
                self._tell(message(changed, now))
            seen = now
        connection.close()
        if STOP.is_set():
            self._tell(None)

    def _see_off(self) -> None:
        """End the streams of viewers that may no longer watch."""
        with self.lock:
            watching = {viewer for _, viewer in self.listeners.values() if viewer}
        away = viewers.gone(watching)
        if away:
            self._tell(None, away)

    def _tell(self, text: str | None, only: Set[Viewer] | None = None) -> None:
        with self.lock:
            for queue, (loop, viewer) in self.listeners.items():
                if only is not None and viewer not in only:
                    continue
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_put, queue, text)


WATCH = Watch()


def message(changed: list[str], versions: dict[str, Any]) -> str:
    """One server-sent event."""
    now, paused, speed = versions["clock"]
    body = {"parts": changed, "now": now, "paused": bool(paused), "speed": speed}
    return f"event: change\ndata: {json.dumps(body)}\n\n"


async def stream(viewer: Viewer | None = None) -> AsyncIterator[str]:
    """Messages until the server stops, the viewer may watch no longer, or the stream's life is over."""
    queue: Queue = asyncio.Queue(maxsize=16)
    beat = f"event: beat\ndata: {settings.STREAM_BEAT}\n\n"  # a page that hears none for long knows that it is stale
    WATCH.join(queue, viewer)
    end = asyncio.get_running_loop().time() + LIFE
    try:
        yield f"retry: 2000\n{beat}"
        while not STOP.is_set() and asyncio.get_running_loop().time() < end:
            try:
                text = await asyncio.wait_for(queue.get(), settings.STREAM_BEAT)
            except TimeoutError:
                text = beat
            if text is None:
                return
            yield text
    finally:
        WATCH.leave(queue)


def _put(queue: Queue, text: str | None) -> None:
    if queue.full():  # a page that does not read: the newest message says all it needs
        queue.get_nowait()
    queue.put_nowait(text)
