"""Who gets through to which notebook, as remembered for a few seconds, and what use is noted of it."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

import structlog
from django.db import connection
from django.db.utils import DatabaseError

from controlplane.notebookproxy.doors import Doors
from controlplane.queries.accounts import visiting
from controlplane.queries.accounts.visiting import No, Seat
from controlplane.security import sessions
from controlplane.security.notebookkeys import Visit
from controlplane.services.workloads import idle

THREADS = 4
REMEMBERED_SECONDS = 5.0  # so long after a role was taken, a session ended or a notebook parked, its visits go on
NOTED_SECONDS = 30.0  # use is written down at most so often

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Gate:
    """One for a process; used from its event loop only."""

    def __init__(self, doors: Doors, now: Callable[[], float] = time.monotonic) -> None:
        self._doors, self._now = doors, now
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="gate")
        self._known: dict[Visit, tuple[float, tuple[Seat, str] | No]] = {}
        self._noted: dict[UUID, float] = {}

    async def way(self, visit: Visit) -> tuple[Seat, str] | No:
        """The notebook and `host:port` of its server, or why the visitor may not go there.

        Raises DoorError, or DatabaseError where that cannot be known.
        """
        now = self._now()
        found = self._known.get(visit)
        if found is None or now >= found[0]:
            found = now + REMEMBERED_SECONDS, await self.in_thread(self._look, visit)
            self._known = {one: told for one, told in self._known.items() if told[0] > now}
            self._known[visit] = found
        return found[1]

    async def note_use(self, visit: Visit) -> None:
        """Somebody has done something in it: its idle time counts anew, and the session is in use."""
        now = self._now()
        if now - self._noted.get(visit.notebook, -NOTED_SECONDS) < NOTED_SECONDS:
            return
        self._noted = {one: at for one, at in self._noted.items() if now - at < NOTED_SECONDS}
        self._noted[visit.notebook] = now
        try:
            await self.in_thread(self._write, visit)
        except DatabaseError as error:  # what was done is done; the next use is noted
            log.warning("use not noted", notebook=str(visit.notebook), error=str(error))

    def close(self) -> None:
        """End its threads."""
        self._threads.shutdown(cancel_futures=True)
        self._doors.close()

    def in_thread(self, work: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        """Run what asks the database or the cluster."""
        return asyncio.get_running_loop().run_in_executor(self._threads, _with_connection, work, *args)

    def address(self, seat: Seat) -> str | None:
        """Of its server, from any thread."""
        return self._doors.address(seat)

    def _look(self, visit: Visit) -> tuple[Seat, str] | No:
        seat = visiting.seat(visit)
        if isinstance(seat, No):
            return seat
        address = self._doors.address(seat)
        return (seat, address) if address else No.NOT_UP

    def _write(self, visit: Visit) -> None:
        idle.note_use(visit.notebook)
        sessions.keep_alive(visit.user, visit.session)


def _with_connection(work: Callable[..., T], *args: Any) -> T:
    try:
        return work(*args)
    finally:
        connection.close()  # each visit asks a few times a minute, and so no connection outlives what broke it
