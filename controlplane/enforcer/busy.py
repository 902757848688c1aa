"""For how long each share has had the token of one GPU, so that no moment counts for two of them. Pure.

What a holder has queued when it gives the token back still runs then, so its time may end a little later than now: it
counts once it has passed. Times are whole microseconds that the caller reads.
"""

from collections import deque
from collections.abc import Mapping


class Busy:
    """One GPU. Counts only grow; those of a share that is forgotten begin at 0 if it comes again."""

    def __init__(self) -> None:
        self._had: dict[str, int] = {}
        self._ahead: deque[tuple[str, int, int]] = deque()  # share, begin, end: one after the other, not all passed yet
        self._until = 0  # up to here the time is some share's already
        self._holder: str | None = None
        self._since = 0

    def begins(self, name: str, since: int) -> None:
        """The share has the token from then on, which may be a little later than now."""
        self._holder, self._since = name, since

    def ends(self, at: int, end: int) -> None:
        """The holder gives it back at `at`, and its time ends at `end`. If there is none, nothing happens."""
        begin = max(self._since, self._until)
        if self._holder is not None and end > begin:
            self._ahead.append((self._holder, begin, end))
            self._until = end
        self._holder = None
        self._fold(at)

    def read(self, at: int) -> Mapping[str, int]:
        """Microseconds up to now, by share; one that never had the token is not named."""
        self._fold(at)
        found = dict(self._had)
        rests = list(self._ahead)
        if self._holder is not None:
            rests.append((self._holder, max(self._since, self._until), at))
        for name, begin, end in rests:
            found[name] = found.get(name, 0) + max(0, min(end, at) - begin)
        return found

    def forget(self, name: str) -> None:
        """The share is gone."""
        self._had.pop(name, None)
        self._ahead = deque(one for one in self._ahead if one[0] != name)
        if self._holder == name:
            self._holder = None

    def _fold(self, at: int) -> None:
        while self._ahead and self._ahead[0][2] <= at:
            name, begin, end = self._ahead.popleft()
            self._had[name] = self._had.get(name, 0) + end - begin
