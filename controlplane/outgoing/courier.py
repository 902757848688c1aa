"""Threads that wait for receivers, so that no loop does."""

import queue
import threading
import time
from collections.abc import Callable, Hashable

import structlog

from controlplane.outgoing.https import Outcome

AT_ONCE = 16  # errands; a receiver that never answers keeps one for seconds

log = structlog.get_logger(__name__)


class Courier:
    """Runs errands, each in a thread of its own, and keeps what came of them until it is asked for.

    `ring` is called after each. The threads are daemons: a process ends without them, and what they carried is sent
    again, as its arrival was not confirmed.
    """

    def __init__(self, ring: Callable[[], None], at_once: int = AT_ONCE) -> None:
        self._ring = ring
        self._at_once = at_once
        self._done: queue.SimpleQueue[tuple[Hashable, Outcome]] = queue.SimpleQueue()
        self._under_way: set[Hashable] = set()

    @property
    def free(self) -> int:
        """How many errands more may begin."""
        return max(0, self._at_once - len(self._under_way))

    @property
    def under_way(self) -> frozenset[Hashable]:
        """The errands whose outcome was not asked for yet."""
        return frozenset(self._under_way)

    def send(self, name: Hashable, errand: Callable[[], Outcome]) -> None:
        """Begin an errand."""
        self._under_way.add(name)
        threading.Thread(target=self._run, args=(name, errand), name="courier", daemon=True).start()

    def outcomes(self) -> list[tuple[Hashable, Outcome]]:
        """What came of the errands that are over, once each."""
        found = []
        while not self._done.empty():
            name, outcome = self._done.get()
            self._under_way.discard(name)
            found.append((name, outcome))
        return found

    def _run(self, name: Hashable, errand: Callable[[], Outcome]) -> None:
        began = time.monotonic()
        try:
            outcome = errand()
        except Exception:  # a bug: the errand is to say what went wrong
            log.exception("errand failed", errand=str(name))
            outcome = Outcome(None, "An error of ours; see the log", time.monotonic() - began)
        self._done.put((name, outcome))
        self._ring()
