"""A client's connection: its requests one after the other, also when several are sent ahead."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol, cast

import httptools

from controlplane.activator import heads
from controlplane.activator.exchange import TOO_LARGE, Exchange
from controlplane.activator.gate import Gate
from controlplane.activator.heads import BadRequestError, Network

HEAD_SECONDS = 10.0  # for a request's head, from its first byte
BODY_SECONDS, BODY_RATE = 30.0, 4096  # for a body, and a second more for each so many bytes
IDLE_SECONDS = 75.0  # between two requests
STALL_SECONDS = 60.0  # a client that takes nothing of its answer for so long has its connection cut
MAX_FRAMES, FRAMES = 256 * 2**10, 8  # bytes around chunks, and for each byte in them
LINGER_SECONDS = 2.0  # what still comes after a refusal is read, else the refusal might be lost with it
AHEAD, MOST_AHEAD = 16, 64  # requests sent before the first was answered: then no more is read; then it is too many


class House(Protocol):
    """All of the activator, as a connection sees it."""

    loop: asyncio.AbstractEventLoop
    trusted: Sequence[Network]
    max_body: int
    is_draining: bool

    def gate(self, port: int) -> Gate | None: ...  # noqa: D102
    def may_ask(self, gate: Gate, peer: str) -> bool: ...  # noqa: D102
    def join(self, client: "Client") -> bool: ...  # noqa: D102
    def part(self, client: "Client") -> None: ...  # noqa: D102


class Client(asyncio.Protocol):
    """Made by the listener of a service's port."""

    def __init__(self, site: House, port: int) -> None:
        self._site, self._port = site, port
        self._loop = site.loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._line: deque[Exchange] = deque()  # the first is being served
        self._reading: Exchange | None = None  # the one whose body comes
        self._method, self._target = b"", b""
        self._headers: heads.Headers = []
        self._head_bytes = 0
        self._last_words = b""  # to be said before the connection is closed
        self._early: list[bytes] = []  # came after a request to change the protocol
        self._raw = 0  # bytes of the request that is coming, its head or its body
        self._is_deaf = False  # what comes is not read any more
        self._is_lingering = self._is_upgrading = self._is_held = False
        self._tunnel: Exchange | None = None
        self._since = self._loop.time()  # of the head, the body or the silence
        self._stalled_since = 0.0
        self.peer = ""
        self.is_trusted = False

    @property
    def is_stalled(self) -> bool:
        """Whether the client takes its answer more slowly than it comes."""
        return self._stalled_since > 0

    @property
    def is_busy(self) -> bool:
        """Whether a request of it has begun."""
        return bool(self._head_bytes or self._line)

    @property
    def is_to_close(self) -> bool:
        """Whether the next answer is the connection's last: the service's traffic is to go elsewhere."""
        gate = self._site.gate(self._port)
        return self._site.is_draining or gate is None or gate.service.is_direct

    # --- what the transport calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if address else ""
        self.is_trusted = heads.is_among(self.peer, self._site.trusted)
        if not self._site.join(self):
            self._say_last(heads.problem(503, "Too many connections. Try again later.", b"retry-after: 1\r\n"))

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._site.part(self)
        self._is_deaf, self._transport = True, None
        line, self._line = self._line, deque()
        for exchange in line:
            exchange.client_gone()

    def eof_received(self) -> None:
        """It sends no more, and is taken to have gone: the transport closes itself."""

    def pause_writing(self) -> None:
        """The client is slower than the replica."""
        self._stalled_since = self._loop.time()
        if self._line:
            self._line[0].hold_replica()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._stalled_since = 0.0
        if self._line:
            self._line[0].release_replica()

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        if self._is_deaf:
            return
        if self._tunnel is not None:
            self._tunnel.tunnel(data)
            return
        if self._is_upgrading:
            self._hear_early(data)
            return
        self._raw += len(data)
        while data and not self._is_deaf:
            try:
                self._parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as upgrade:
                data = self._after_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError as error:
                self._reject(*_problem(error))
                return
        self._bound()

    def _bound(self) -> None:
        """What the parser keeps to itself for long is a head, a trailer or the frame of chunks."""
        if self._reading is None:
            if self._raw > heads.MAX_HEAD:
                self._reject(431, f"The head has more than {heads.MAX_HEAD} bytes. Send fewer or shorter headers.")
        elif self._raw > MAX_FRAMES + FRAMES * self._reading.received:
            self._reject(400, "The chunks have more around them than in them. Send larger chunks, and no trailer.")
        if len(self._line) > AHEAD:
            self.hold()

    # --- what the parser calls -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target, self._headers, self._head_bytes = b"", [], 1
        self._since = self._loop.time()

    def on_url(self, part: bytes) -> None:
        """A part of the target."""
        self._target += part
        self._head_bytes += len(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one of a trailer, which is not passed on."""
        self._head_bytes += len(name) + len(value)
        if self._reading is None and len(self._headers) <= heads.MAX_HEADERS:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self._is_deaf:
            return
        size, self._head_bytes, self._raw = self._head_bytes, 0, 0
        self._since = self._loop.time()
        try:
            self._reading = self._begun(size)
        except BadRequestError as error:
            self._reject(error.status, str(error))
            return
        self._line.append(self._reading)
        if len(self._line) == 1:
            self._reading.start()

    def _begun(self, size: int) -> Exchange:
        """What the head asks for. Raises BadRequestError."""
        if len(self._line) >= MOST_AHEAD:
            raise BadRequestError(429, f"More than {MOST_AHEAD} requests were sent ahead. Wait for their answers.")
        if len(self._headers) > heads.MAX_HEADERS:
            raise BadRequestError(431, f"More than {heads.MAX_HEADERS} headers. Send fewer.")
        if size > heads.MAX_HEAD:
            raise BadRequestError(431, f"The head has more than {heads.MAX_HEAD} bytes. Send shorter headers.")
        if len(self._target) > heads.MAX_TARGET:
            raise BadRequestError(414, f"The target has more than {heads.MAX_TARGET} bytes. Send it in the body.")
        parser = self._parser
        head = heads.read(
            parser.get_method(), self._target, parser.get_http_version(), self._headers, parser.should_keep_alive()
        )
        if head.length is not None and head.length > self._site.max_body:
            raise BadRequestError(413, TOO_LARGE.format(self._site.max_body))
        return Exchange(self, self._gate(), head)

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        if self._reading is None or self._is_deaf:
            return
        if self._reading.received + len(data) > self._site.max_body:
            self._reject(413, TOO_LARGE.format(self._site.max_body))
        else:
            self._reading.feed(data)

    def on_message_complete(self) -> None:
        """The request is whole."""
        exchange, self._reading = self._reading, None
        self._head_bytes = self._raw = 0
        self._since = self._loop.time()
        if exchange is not None and not self._is_deaf:
            exchange.end()

    # --- what exchanges call ---------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send this."""
        if self._transport is not None:
            self._transport.write(data)

    def finished(self, exchange: Exchange) -> None:
        """An answer has ended: the next request's turn, or the connection's end."""
        if not self._line or self._line[0] is not exchange:
            return
        self._line.popleft()
        self._since = self._loop.time()
        if exchange.closes:
            self._say_last(b"")
        elif self._line:
            self._line[0].start()
        elif self._last_words:
            self._say_last(self._last_words)
        if len(self._line) <= AHEAD:
            self.release()

    def hold(self) -> None:
        """Read no more for now."""
        if self._transport is not None and not self._is_held and not self._is_lingering:
            self._is_held = True
            self._transport.pause_reading()

    def release(self) -> None:
        """Go on reading."""
        if self._is_held and self._transport is not None:
            self._is_held, self._since = False, self._loop.time()
            self._transport.resume_reading()

    def open_tunnel(self, exchange: Exchange) -> None:
        """From here on bytes are passed on as they are."""
        self._tunnel = exchange
        for data in self._early:
            exchange.tunnel(data)
        self._early = []
        self.release()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def tick(self, now: float) -> None:
        """Each second: what takes too long is ended."""
        waited = now - self._since
        is_stalled = self.is_stalled and now - self._stalled_since > STALL_SECONDS
        if is_stalled or (self._is_lingering and waited > LINGER_SECONDS):
            self.abort()
        elif not (self._is_deaf or self._is_upgrading):
            self._tick_request(now, waited)

    def _tick_request(self, now: float, waited: float) -> None:
        if self._reading is not None:
            if waited > BODY_SECONDS + self._reading.received / BODY_RATE and not self._is_held:
                self._reject(408, "The body did not come in time. Send it faster, or in parts.")
        elif self._head_bytes:
            if waited > HEAD_SECONDS:
                self._reject(408, "The head did not come in time. Send it at once.")
        elif not self._line and (waited > IDLE_SECONDS or self.is_to_close):
            self._say_last(b"")

    # --- ends ------------------------------------------------------------------------------------

    def _gate(self) -> Gate:
        gate = self._site.gate(self._port)
        if gate is None:
            raise BadRequestError(404, "No service has this port now. Look up the service's address again.")
        if not self._site.may_ask(gate, self.peer):
            raise BadRequestError(
                403, "This service is another team's, or your pod is not known yet. Ask from a pod of its team."
            )
        return gate

    def _after_upgrade(self, rest: bytes) -> bytes:
        """What is to be read after a request that asks for another protocol; only websockets are known."""
        if self._line and self._line[-1].head.is_websocket:
            self._is_upgrading = True
            if self._tunnel is not None:
                self._tunnel.tunnel(rest)
            elif rest:
                self._hear_early(rest)
            return b""
        self._parser = httptools.HttpRequestParser(self)
        return rest

    def _hear_early(self, data: bytes) -> None:
        self._early.append(data)
        self.hold()

    def _reject(self, status: int, message: str) -> None:
        """The rest of the connection cannot be read: say why, after the answers that are due."""
        if self._is_deaf:
            return
        self._is_deaf = True
        words = heads.problem(status, message)
        broken, self._reading = self._reading, None
        if broken is not None and self._line and self._line[-1] is broken:
            self._line.pop()
            is_answering = bool(broken.has_answer)
            broken.client_gone()
            if is_answering:
                self.abort()
                return
        if self._line:
            self._last_words = words
        else:
            self._say_last(words)

    def _say_last(self, words: bytes) -> None:
        """Send this, end our half, and close once the client has ended its own, or after a moment."""
        if self._is_lingering:
            return
        self._is_deaf = self._is_lingering = True
        self._since, self._last_words = self._loop.time(), b""
        line, self._line = self._line, deque()
        for exchange in line:
            exchange.client_gone()
        if self._transport is None:
            return
        if words:
            self._transport.write(words)
        self.release()
        if self._transport.can_write_eof():
            self._transport.write_eof()


def _problem(error: httptools.HttpParserError) -> tuple[int, str]:
    """What the parser could not read, with the fix."""
    said = str(error)
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return 400, "The method is not known. Send an HTTP/1.1 request, without TLS."
    if "HTTP version" in said or "PRI/" in said:
        return 505, "Only HTTP/1.1 is spoken here. Send the request as HTTP/1.1."
    if isinstance(error, httptools.HttpParserInvalidURLError):
        return 400, "The target is not a path. Percent-encode what is not allowed in it."
    return 400, f"This is no request of HTTP/1.1: {said}. Look at its lines, lengths and chunks."
