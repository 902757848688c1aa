"""Who was here lately: credentials that were good, and addresses that they came from, as this process saw them.

It decides no rights. It tells whose requests are looked at first when strangers ask more than there is time for.
"""

import threading
import time
from collections import OrderedDict

MAX = 20_000
SECONDS = 12 * 3600.0  # as long as a session lasts


class Lately:
    """Keys that were noted within some time; of too many the one that was noted longest ago is forgotten."""

    def __init__(self, most: int = MAX, seconds: float = SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, key: str, seconds: float | None = None, *, now: float | None = None) -> None:
        """Know it from now on, for so many seconds."""
        at = time.monotonic() if now is None else now
        with self._lock:
            self._ends[key] = at + (self._seconds if seconds is None else seconds)
            self._ends.move_to_end(key)
            while len(self._ends) > self._most:
                self._ends.popitem(last=False)

    def left(self, key: str, *, now: float | None = None) -> float:
        """Seconds for which it is still known; 0.0 if it is not."""
        at = time.monotonic() if now is None else now
        with self._lock:
            end = self._ends.get(key)
            if end is not None and end <= at:
                del self._ends[key]
        return max(0.0, end - at) if end is not None else 0.0

    def forget(self, key: str) -> None:
        """Know it no longer."""
        with self._lock:
            self._ends.pop(key, None)

    def forget_all(self) -> None:
        """Know nothing."""
        with self._lock:
            self._ends.clear()

    def __contains__(self, key: str) -> bool:
        """Whether it is known."""
        return self.left(key) > 0.0


credentials = Lately()  # digests of tokens and sessions that were shown and were right
addresses = Lately()  # from which somebody was signed in
