"""The load of `gateway`: a server that answers at once, and requests at Poisson times over kept connections."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

ANSWER_BYTES = 1024
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: %d\r\n\r\n" % ANSWER_BYTES
) + b"x" * ANSWER_BYTES
REQUEST = b"GET /v1/answer HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\nuser-agent: benchmark\r\n\r\n"
CONNECTIONS = 64
SECONDS_LATE = 5.0  # after the last request is due, what has no answer is given up


class Server(asyncio.Protocol):
    """Answers each GET with 1 KiB."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Requests without a body end in an empty line."""
        self._transport.write(ANSWER * data.count(b"\r\n\r\n"))


@dataclass
class Load:
    """What came back: seconds from when each request was due, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    wall: float = 0.0

    def quantile(self, part: float) -> float:
        """Of the seconds; infinite without an answer."""
        every = sorted(self.seconds)
        return every[min(len(every) - 1, int(len(every) * part))] if every else float("inf")


class _Connection(asyncio.Protocol):
    """One request at a time; counts the bytes of its answer."""

    def __init__(self, load: Load, idle: "deque[_Connection]", due: deque[float]) -> None:
        self._load, self._idle, self._due_all = load, idle, due
        self._due = 0.0
        self._head = b""
        self._left = -1  # bytes of the answer that are to come; -1: its head is not there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._due:
            self._load.errors["connection lost"] += 1

    def ask(self, due: float) -> None:
        self._due = due
        self._transport.write(REQUEST)

    def close(self) -> None:
        self._due = 0.0
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._head.startswith(b"HTTP/1.1 200"):
                self._load.errors[self._head[:12].decode("latin-1")] += 1
            length = int(self._head[:end].lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            self._left = length - (len(self._head) - end - 4)
            self._head = b""
        else:
            self._left -= len(data)
        if self._left > 0:
            return
        self._left = -1
        self._load.seconds.append(time.perf_counter() - self._due)
        if self._due_all:
            self.ask(self._due_all.popleft())
        else:
            self._due = 0.0
            self._idle.append(self)


async def send(port: int, per_second: float, seconds: float, seed: int) -> Load:
    """Send at these times, whether or not those before were answered; a late start counts as latency."""
    load, idle, due = Load(), deque[_Connection](), deque[float]()
    loop = asyncio.get_running_loop()
    every = []
    for _ in range(CONNECTIONS):
        _, made = await loop.create_connection(lambda: _Connection(load, idle, due), "127.0.0.1", port)
        every.append(made)
    idle.extend(every)
    began = time.perf_counter()
    count = 0
    for at in _times(began, per_second, seconds, seed):
        if (pause := at - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        elif not count % 16:  # behind: answers are read all the same
            await asyncio.sleep(0)
        count += 1
        if idle:
            idle.popleft().ask(at)
        else:
            due.append(at)
    await _answered(load, count)
    load.wall = max(time.perf_counter() - began, seconds)
    for connection in every:
        connection.close()
    return load


def _times(began: float, per_second: float, seconds: float, seed: int) -> Iterator[float]:
    draws, at = random.Random(seed), began  # noqa: S311 - a load, not a secret
    while (at := at + draws.expovariate(per_second)) < began + seconds:
        yield at


async def _answered(load: Load, count: int) -> None:
    until = time.perf_counter() + SECONDS_LATE
    while len(load.seconds) + sum(load.errors.values()) < count and time.perf_counter() < until:
        await asyncio.sleep(0.01)
    if missing := count - len(load.seconds) - sum(load.errors.values()):
        load.errors["no answer in time"] += missing
