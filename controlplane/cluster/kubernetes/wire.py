"""HTTP/1.1 over kept connections, for requests that are made by the ten thousand.

A bind through a general client costs three times the processor time of all else that Weft does for it; this one knows
no redirects, cookies, proxies or streams. The C parser is uvicorn's; long answers and watches go through aiohttp.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

KEPT_SECONDS = 60.0  # a connection that was unused for longer is not trusted to be open still


@dataclass(slots=True)
class Answer:
    """Status, headers in lower case, and the whole body."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)


class Wires:
    """Connections to one server, made when needed. To be used from one event loop only."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, server_name: str | None, connect_seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._is_tls = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._tls, self._name = tls, server_name
        self._prefix = parts.path.rstrip("/")
        self._connect_seconds = connect_seconds
        self._authority = parts.netloc.rpartition("@")[2]
        self._idle: deque[_Wire] = deque()

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes, seconds: float) -> Answer:
        """Send it and wait for the whole answer. Raises TimeoutError or OSError; it may have been done all the same."""
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"Content-Length: {len(body)}\r\n\r\n")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) + 1:
            raise ValueError("A request's path or header has a line break in it.")
        data = head.encode("latin-1") + body
        loop = asyncio.get_running_loop()
        wire = self._free(loop.time()) or await self._connect(loop)
        answered = wire.send(data)
        timer = loop.call_later(seconds, wire.give_up)
        try:
            answer = await answered
        except BaseException:
            wire.close()
            raise
        finally:
            timer.cancel()
        if wire.is_open:
            wire.used_at = loop.time()
            self._idle.append(wire)
        return answer

    def close(self) -> None:
        """Close what is idle; what is in use is closed by its request."""
        while self._idle:
            self._idle.pop().close()

    def _free(self, now: float) -> "_Wire | None":
        while self._idle:
            wire = self._idle.pop()  # the last used: those in excess grow old
            if wire.is_open and now - wire.used_at < KEPT_SECONDS:
                return wire
            wire.close()
        return None

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> "_Wire":
        tls = (self._tls or ssl.create_default_context()) if self._is_tls else None
        async with asyncio.timeout(self._connect_seconds):
            _, wire = await loop.create_connection(
                lambda: _Wire(loop), self._host, self._port, ssl=tls,
                server_hostname=(self._name or self._host) if tls else None,
            )  # fmt: skip
        return wire


class _Wire(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._answer = Answer()
        self.is_open = False
        self.used_at = 0.0

    def send(self, data: bytes) -> "asyncio.Future[Answer]":
        """Send one request; the future is its answer."""
        self._answer, self._parser = Answer(), httptools.HttpResponseParser(self)
        self._answered = self._loop.create_future()
        if self._transport is not None:  # it is connected before it is handed out
            self._transport.write(data)
        return self._answered

    def give_up(self) -> None:
        """No answer in time."""
        self._fail(TimeoutError("no answer in time"))

    def close(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # --- what the transport calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def connection_lost(self, exc: Exception | None) -> None:
        """It was closed."""
        self.is_open = False
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """A part of the answer."""
        if self._parser is None:
            self.close()  # nothing was asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"not HTTP: {error}"))
            self.close()

    # --- what the parser calls ---------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._answer.body += body

    def on_message_complete(self) -> None:
        """That was all."""
        if self._parser is None:
            return
        self._answer.status = self._parser.get_status_code()
        if not self._parser.should_keep_alive():
            self.close()
        self._parser = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(self._answer)

    def _fail(self, error: Exception) -> None:
        self._parser = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
