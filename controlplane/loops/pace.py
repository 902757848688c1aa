"""How often a loop that decides nothing works: it shares the interpreter with those that do."""

import time
from collections.abc import Callable


class Pace:
    """When the next piece of work is due: a period later, or `rest` times as long as the last one took.

    The first one is a period after the start, when the loops have caught up.
    """

    def __init__(self, period: float, rest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period = period
        self._rest = rest
        self._clock = clock
        self._due = clock() + period

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return self._clock() >= self._due

    def spend(self, took: float) -> None:
        """The work is over; it took so many seconds."""
        self._due = self._clock() + max(self._period, self._rest * took)
