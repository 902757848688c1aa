"""Wake a loop after the current transaction, instead of polling faster.

A wake-up is a hint: it may be lost or doubled, and every loop also runs by its period (L2 of docs/promises.md). In the
embedded mode it sets an event of this process, and Celery, whose import takes a quarter of a start, is not loaded. In
production every worker process gets it, since only one of them holds the loop's lease and the sender does not know
which: the others look at the lease and go on waiting.
"""

import threading
import time
from collections import defaultdict
from functools import cache
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

EXPIRES_SECONDS = 10  # a hint older than the schedule loop's period says nothing new
SILENCE_SECONDS = 5.0  # after a failed send, so that a dead broker costs one request its time-out, not every one

log = structlog.get_logger(__name__)


class Bell:
    """What the embedded loops wait on. Rings of the loops' own thread are ignored: it knows what it did."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._owner: int | None = None

    def adopt(self) -> None:
        """Make the calling thread the owner, whose own rings are ignored."""
        self._owner = threading.get_ident()

    def ring(self) -> None:
        """Wake the owner."""
        if threading.get_ident() != self._owner:
            self._rung.set()

    def wait(self, seconds: float) -> bool:
        """Wait for a ring at most so long; tell whether there was one."""
        return self._rung.wait(seconds)

    def answer(self) -> bool:
        """Take note of the rings so far; tell whether there were any."""
        was_rung = self._rung.is_set()
        self._rung.clear()
        return was_rung


bell = Bell()
# What the loops of a worker process wait on, by loop; nothing waits in a web process. A ring that comes while its loop
# runs stays, so the loop runs once more: a hint is never older than what the next round reads.
bells: defaultdict[str, threading.Event] = defaultdict(threading.Event)
# Loops that ask no cluster. In the embedded mode they have a thread of their own as well: they decide nothing.
WITHOUT_CLUSTER = frozenset({"notify", "prune"})
# Set when this process is asked to stop: an endless stream ends then.
stopping = threading.Event()
_silent_until = 0.0  # monotonic seconds of this process


@cache
def exchange() -> Any:
    """Where the broker takes hints for every worker process.

    Redis' transport takes an exchange for a direct one until it is declared: then hints pile up in unread lists.
    """
    from kombu import Exchange

    return Exchange("hints", type="fanout")


def wake(loop: str) -> None:
    """Wake the loop (`schedule`, `actuate`, ...) once the current transaction is committed."""
    is_driven = settings.EMBEDDED and loop not in WITHOUT_CLUSTER
    transaction.on_commit(bell.ring if is_driven else lambda: broadcast(loop), robust=True)


def broadcast(loop: str) -> None:
    """Wake the loop now, wherever its lease is held: in this process without the broker, in the others through it."""
    global _silent_until
    bells[loop].set()
    if not settings.REDIS_URL or time.monotonic() < _silent_until:
        return
    from celery import current_app

    try:
        current_app.send_task(
            f"controlplane.tasks.{loop}", expires=EXPIRES_SECONDS, ignore_result=True, retry=False, declare=[exchange()]
        )
    except Exception as error:  # whatever the broker's client raises: the period will do what the hint would have
        _silent_until = time.monotonic() + SILENCE_SECONDS
        log.warning("wake failed", loop=loop, error=str(error))
