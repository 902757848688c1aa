"""Rules that the token's is compared with: Gemini's sliding window, and the driver's own time slices."""

from collections import deque

from gpushare.gpu import WHOLE, Share
from gpushare.timeline import Division
from gpushare.tokens import MILLISECOND, Grant

WINDOW = 10_000 * MILLISECOND
QUOTA = 60 * MILLISECOND  # Gemini's grows to what a burst takes: this is the longest of ours
SLICE = 2 * MILLISECOND


class Window(Division):
    """Gemini: the client that lacks the largest part of its guarantee in the last ten seconds; none beyond its limit.

    A client that had nothing in that time comes first. Where none lacks anything, the one that had least is next.
    Source: H. Chen et al., Gemini (ICCD 2021), and the scheduler that its authors released.
    """

    def __init__(self) -> None:
        self._shares: dict[str, Share] = {}
        self._had: dict[str, deque[tuple[int, int]]] = {}
        self._asks: dict[str, int] = {}  # since when
        self._holder = ""

    def join(self, client: str, share: Share, at: int) -> None:
        """A client comes."""
        self._shares[client], self._had[client] = share, deque()

    def ask(self, client: str, at: int) -> None:
        """A client wants the token."""
        self._asks[client] = at

    def choose(self, at: int) -> Grant | None:
        """Who is next."""
        able = [name for name in self._asks if self._remaining(name, at) > 0]
        if not able:
            return None
        first = min(self._asks, key=lambda name: (self._asks[name], name))
        name = first if first in able and not self._usage(first, at) else min(able, key=lambda one: self._rank(one, at))
        del self._asks[name]
        self._holder = name
        remaining = self._remaining(name, at)
        return Grant(name, QUOTA, None if self._shares[name].limit == WHOLE else remaining)

    def next_at(self, at: int) -> int | None:
        """When those that ask may have it: once their oldest turn leaves the window."""
        oldest = [self._had[name][0][0] + WINDOW for name in self._asks if self._had[name]]
        return max(at + 1, min(oldest)) if oldest else at + 1 if self._asks else None

    def is_owed(self, had: int, at: int) -> bool:
        """A quota runs to its end."""
        return False

    def settle(self, had: int, at: int, *, asks: bool) -> None:
        """The token comes back."""
        self._had[self._holder].append((at - had, at))
        if asks:
            self._asks[self._holder] = at

    def _usage(self, name: str, at: int) -> int:
        had = self._had[name]
        while had and had[0][1] <= at - WINDOW:
            had.popleft()
        return sum(stop - max(start, at - WINDOW) for start, stop in had)

    def _remaining(self, name: str, at: int) -> int:
        return self._shares[name].limit * WINDOW // WHOLE - self._usage(name, at)

    def _rank(self, name: str, at: int) -> tuple[bool, float, str]:
        usage, promised = self._usage(name, at), self._shares[name].guarantee * WINDOW // WHOLE
        lacks = promised - usage
        return lacks <= 0, -lacks / promised if lacks > 0 else usage, name


class Slices(Division):
    """The driver's time slices: those that have work take turns, whatever they were promised."""

    def __init__(self) -> None:
        self._asks: dict[str, None] = {}
        self._holder = ""

    def join(self, client: str, share: Share, at: int) -> None:
        """A client comes."""

    def ask(self, client: str, at: int) -> None:
        """A client has work."""
        self._asks[client] = None

    def choose(self, at: int) -> Grant | None:
        """The one that has waited longest."""
        if not self._asks:
            return None
        self._holder = next(iter(self._asks))
        del self._asks[self._holder]
        return Grant(self._holder, SLICE, None)

    def next_at(self, at: int) -> int | None:
        """At once."""
        return at if self._asks else None

    def is_owed(self, had: int, at: int) -> bool:
        """A slice runs to its end."""
        return False

    def settle(self, had: int, at: int, *, asks: bool) -> None:
        """A slice is over."""
        if asks:
            self._asks[self._holder] = None
