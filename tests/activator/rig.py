"""The activator in the test's event loop, before replicas that answer what each test scripts."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from autoscaler.lanes import Bounds
from controlplane.activator.client import Client
from controlplane.activator.directory import Service
from controlplane.activator.site import Limits, Site

HOST = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASK = b"GET /v1 HTTP/1.1\r\nHost: chat\r\n\r\n"
WAIT_SECONDS = 10.0
BOUNDS = Bounds(slots=4, late_after=1.0, waiting=10, patience=60.0)


class FixedDirectory:
    """The port `Directory` over what a test says."""

    def __init__(self, *services: Service) -> None:
        self._services = services
        self._listeners: list[Callable[[], None]] = []
        self.strangers: set[str] = set()

    def say(self, *services: Service) -> None:
        """From now on these are there."""
        self._services = services
        for tell in self._listeners:
            tell()

    def services(self) -> tuple[Service, ...]:
        return self._services

    def may_ask(self, service: Service, peer: str) -> bool:
        return peer not in self.strangers

    def on_news(self, tell: Callable[[], None]) -> None:
        self._listeners.append(tell)

    def close(self) -> None:
        self._listeners.clear()


Answer = bytes | None | Callable[["Replica", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Replica:
    """Reads requests whole and answers each with the next part of its script; None closes the connection."""

    script: list[Answer] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    open: int = 0
    connections: int = 0
    port: int = 0
    server: asyncio.Server | None = None

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.requests.append(await _request(reader))
                answer = self.script.pop(0) if self.script else OK
                if answer is None:
                    break
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(self, reader, writer)
        self.open -= 1
        writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    low = head.lower()
    if b"transfer-encoding: chunked" in low:
        body = b""
        while True:
            line = await reader.readuntil(b"\r\n")
            body += line + await reader.readexactly(int(line, 16) + 2)
            if line == b"0\r\n":
                return head + body
    if b"content-length: " in low:
        return head + await reader.readexactly(int(low.split(b"content-length: ")[1].split(b"\r\n")[0]))
    return head


@dataclass
class Rig:
    """The activator with one service, and what a test does to it."""

    site: Site
    directory: FixedDirectory
    replicas: list[Replica]
    service: Service
    port: int

    async def connect(self) -> "Talk":
        return Talk(*await asyncio.open_connection(HOST, self.port))

    async def ask(self, data: bytes) -> bytes:
        """All that comes back on a connection of its own until it is closed or an answer is whole."""
        async with self.talk() as talk:
            talk.send(data)
            return await talk.answer()

    @contextlib.asynccontextmanager
    async def talk(self) -> "AsyncIterator[Talk]":
        talk = await self.connect()
        try:
            yield talk
        finally:
            talk.writer.transport.abort()

    def say(self, **changes: object) -> None:
        """Change the service."""
        self.service = replace(self.service, **changes)  # type: ignore[arg-type]
        self.directory.say(self.service)
        self.site.look()

    @property
    def counts(self):  # type: ignore[no-untyped-def]
        gate = self.site.gate(self.service.port)
        assert gate is not None
        return gate.counts

    @property
    def lanes(self):  # type: ignore[no-untyped-def]
        gate = self.site.gate(self.service.port)
        assert gate is not None
        return gate.lanes


@dataclass
class Talk:
    """A client's connection, in bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def line(self) -> bytes:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.readuntil(b"\r\n")

    async def read(self, until: bytes) -> bytes:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.readuntil(until)

    async def answer(self, has_body: bool = True) -> bytes:
        """One answer, its body as it came."""
        async with asyncio.timeout(WAIT_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            low = head.lower()
            if not has_body or head[9:12] in (b"204", b"304", b"101") or head[9:10] == b"1":
                return head
            if b"transfer-encoding: chunked" in low:
                return head + await self.reader.readuntil(b"0\r\n\r\n")
            if b"content-length: " in low:
                return head + await self.reader.readexactly(int(low.split(b"content-length: ")[1].split(b"\r\n")[0]))
            return head + await self.reader.read()

    async def rest(self) -> bytes:
        """All that comes until the connection is closed."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.read()


async def until(holds: Callable[[], object], what: str) -> None:
    """Wait until this holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_SECONDS
    while not holds():
        if loop.time() > end:
            raise AssertionError(f"not in time: {what}")
        await asyncio.sleep(0.005)


def activated(
    test: Callable[[Rig], Awaitable[None]],
    *scripts: list[Answer],
    bounds: Bounds = BOUNDS,
    limits: Limits | None = None,
) -> None:
    """Run a test against an activator with a replica for each script; none: one that answers ok."""

    async def go() -> None:
        async with rig([Replica(list(script)) for script in scripts or ([],)], bounds, limits or Limits()) as found:
            await test(found)

    asyncio.run(go())


@contextlib.asynccontextmanager
async def rig(replicas: list[Replica], bounds: Bounds, limits: Limits) -> AsyncIterator[Rig]:
    loop = asyncio.get_running_loop()
    for replica in replicas:
        replica.server = await asyncio.start_server(replica.handle, HOST, 0)
        replica.port = replica.server.sockets[0].getsockname()[1]
    directory = FixedDirectory()
    site = Site(directory, limits)
    server = await loop.create_server(partial(Client, site, 1), HOST, 0)
    service = Service("u-1", 1, bounds, tuple(f"{HOST}:{replica.port}" for replica in replicas))
    directory.say(service)
    site.look()
    try:
        yield Rig(site, directory, replicas, service, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        site.close()
        for replica in replicas:
            if replica.server is not None:
                replica.server.close()


LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
