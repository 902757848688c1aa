"""What becomes of the time of one GPU whose clients pass a token: a model by events, without clock and chance.

A client computes in bursts of kernels, with gaps between them in which it does not need the GPU; a kernel that runs is
not interrupted. A division says which client has the token (`gpushare.tokens`, or another rule to compare it with).
Whole microseconds. Source: docs/algorithms.md#time-on-a-shared-gpu.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Protocol

from gpushare.gpu import Share
from gpushare.tokens import MILLISECOND, Grant

Bursts = Iterator[tuple[int, int]]  # of GPU time, and of the gap after it


class Division(Protocol):
    """A rule by which clients take turns; `gpushare.tokens.Tokens` says what each method means."""

    def join(self, client: str, share: Share, at: int) -> None: ...  # noqa: D102
    def ask(self, client: str, at: int) -> None: ...  # noqa: D102
    def choose(self, at: int) -> Grant | None: ...  # noqa: D102
    def next_at(self, at: int) -> int | None: ...  # noqa: D102
    def is_owed(self, had: int, at: int) -> bool: ...  # noqa: D102
    def settle(self, had: int, at: int, *, asks: bool) -> None: ...  # noqa: D102

    def goes_on(self, had: int) -> None:
        """Nothing, of a rule that has no use for it."""
        del had


@dataclass(slots=True)
class Client:
    """What a client does, and what it was given. kernel: how long one runs; 1: it can be interrupted at any time."""

    name: str
    share: Share
    kernel: int
    bursts: Bursts
    used: list[tuple[int, int]] = field(default_factory=list)  # from when to when its kernels ran
    stretches: list[float] = field(default_factory=list)  # of each burst with its gap, over the time it takes alone
    alone: int = 0  # how long all that it has finished takes alone
    burst: int = 0
    gap: int = 0
    left: int = 0  # of the burst
    began: int = 0  # when its burst could have been launched
    ready: int = 0  # when it can launch next

    def begin(self, at: int) -> None:
        """Its next burst can be launched from then on."""
        self.burst, self.gap = next(self.bursts)
        self.left, self.began, self.ready = self.burst, at, at

    def run(self, start: int, stop: int) -> None:
        """Its kernels ran. With the end of the burst its gap begins."""
        self.used.append((start, stop))
        self.left -= stop - start
        if not self.left:
            self.stretches.append((stop + self.gap - self.began) / (self.burst + self.gap))
            self.alone += self.burst + self.gap
            self.begin(stop + self.gap)

    def used_within(self, start: int, stop: int) -> int:
        """How long its kernels ran in that time."""
        first = bisect_right(self.used, start, key=itemgetter(1))  # the first that ends later
        last = bisect_left(self.used, stop, key=itemgetter(0))  # the first that begins too late
        return sum(min(end, stop) - max(begin, start) for begin, end in self.used[first:last])

    def to_end_of_kernel(self) -> int:
        """How long the kernel that runs goes on."""
        return min(-(self.burst - self.left) % self.kernel, self.left)


class Timeline:
    """One GPU and its clients, from time 0."""

    def __init__(
        self, clients: Sequence[Client], division: Division, cost: Callable[[Client, Client], int], idle: int
    ) -> None:
        """Cost: how long the GPU idles when the token goes from one client to another.

        idle: a client with nothing to launch keeps the token for so long, though another one asks.
        """
        self._clients = {client.name: client for client in clients}
        self._division, self._cost, self._idle = division, cost, idle
        self._asking: set[str] = set()
        self._last: Client | None = None
        self.at = 0
        for client in clients:
            division.join(client.name, client.share, 0)
            client.begin(0)

    def play(self, until: int) -> None:
        """Go on at least until then."""
        while self.at < until:
            self._hear(None, self.at)
            grant = self._division.choose(self.at)
            if grant is not None:
                self._give(grant, until)
                continue
            times = [client.ready for client in self._clients.values() if client.name not in self._asking]
            if (soonest := self._division.next_at(self.at)) is not None:
                times.append(soonest)
            self.at = min(max(self.at + 1, min(times)), until)

    def _hear(self, holder: Client | None, since: int) -> int | None:
        """All that can launch ask; when the next one will. since: when the holder's turn began."""
        later = []
        for client in self._clients.values():
            if client is holder or client.name in self._asking:
                continue
            if client.ready <= self.at:
                self._asking.add(client.name)
                if holder is not None:
                    self._division.goes_on(self.at - since)
                self._division.ask(client.name, self.at)
            else:
                later.append(client.ready)
        return min(later, default=None)

    def _give(self, grant: Grant, until: int) -> None:
        client = self._clients[grant.client]
        self._asking.discard(client.name)
        if self._last is not None and self._last is not client:
            self.at += self._cost(self._last, client)
        self._last, start = client, self.at
        most = until if grant.most is None else min(until, start + grant.most)
        is_over = False
        while not is_over and self.at < most:
            is_over = self._step(client, start, grant.quota, most)
        if client.left < client.burst and (rest := client.to_end_of_kernel()):
            self._advance(client, self.at + rest)
        asks = client.ready <= self.at
        self._division.settle(self.at - start, self.at, asks=asks)
        if asks:
            self._asking.add(client.name)

    def _step(self, client: Client, start: int, quota: int, most: int) -> bool:
        """Go on to the next event of a client's turn; whether it ends the turn."""
        arrival = self._hear(client, start)
        launches = client.ready <= self.at
        stops = [most, self.at + client.left if launches else client.ready]
        if arrival is not None:
            stops.append(arrival)
        if self._asking:
            if self._division.is_owed(self.at - start, self.at) or self.at >= start + quota:
                return True
            if not launches and self.at >= (given_up := self._idle_since(client) + self._idle):
                return True
            if not launches:
                stops.append(given_up)
            stops += [start + quota, self.at + MILLISECOND + client.kernel]
        self._advance(client, min(stops))
        return False

    def _idle_since(self, client: Client) -> int:
        return client.used[-1][1] if client.used else self.at

    def _advance(self, client: Client, to: int) -> None:
        if client.ready <= self.at and to > self.at:
            client.run(self.at, to)
        self.at = max(self.at, to)
