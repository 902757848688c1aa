"""A connection to a replica: one request at a time, its answer passed on as it comes."""

import asyncio
from typing import Protocol, cast

import httptools

MAX_ANSWER_HEAD = 64 * 2**10  # bytes
MAX_UNSEEN = 512 * 2**10  # bytes without one of a body: the parser keeps a long header or trailer to itself


class Served(Protocol):
    """The request that a connection serves: what it is told."""

    has_answer: int
    is_sent: bool

    def heard(self) -> None: ...  # noqa: D102
    def begin_answer(self, status: int, reason: bytes, headers: list[tuple[bytes, bytes]]) -> bool: ...  # noqa: D102
    def pass_body(self, data: bytes) -> None: ...  # noqa: D102
    def pass_on(self, data: bytes) -> None: ...  # noqa: D102
    def flush(self) -> None: ...  # noqa: D102
    def answered(self) -> None: ...  # noqa: D102
    def open_tunnel(self) -> None: ...  # noqa: D102
    def upstream_lost(self, upstream: "Upstream") -> None: ...  # noqa: D102
    def broken(self, message: str) -> None: ...  # noqa: D102
    def hold_client(self) -> None: ...  # noqa: D102
    def release_client(self) -> None: ...  # noqa: D102


class Keeper(Protocol):
    """Where a connection goes between two requests."""

    def keep(self, upstream: "Upstream") -> None: ...  # noqa: D102


class Upstream(asyncio.Protocol):
    """Made by the gate; kept by it between two requests."""

    def __init__(self, gate: Keeper, replica: str) -> None:
        self._gate, self.replica = gate, replica
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Served | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = self._unseen = 0
        self._reason = b""
        self._is_complete = self._is_dirty = self._is_tunnel = self._is_paused = self._keeps_alive = False
        self.was_used = False  # for a request before this one: the replica may close it at any moment
        self.is_open = False
        self.idle_since = 0.0

    def serve(self, exchange: Served, data: bytes) -> None:
        """Send a request's beginning."""
        self._exchange, self._is_complete = exchange, False
        self.resume()
        self.send(data)

    def send(self, data: bytes) -> None:
        """Send more of it."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_open, self._exchange = False, None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read no more of the answer for now: the client is slower."""
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        if self._transport is not None and self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    # --- what the transport calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def connection_lost(self, exc: Exception | None) -> None:
        """It was closed; where an answer ends with its connection, that is its end."""
        self.is_open = False
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.upstream_lost(self)

    def eof_received(self) -> None:
        """The replica sends no more: the transport closes itself."""

    def pause_writing(self) -> None:
        """The replica is slower than the client."""
        if self._exchange is not None:
            self._exchange.hold_client()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._exchange is not None:
            self._exchange.release_client()

    def data_received(self, data: bytes) -> None:
        """A part of the answer."""
        exchange = self._exchange
        if exchange is None:  # nothing was asked
            self.abort()
            return
        exchange.heard()
        if self._is_tunnel:
            exchange.pass_on(data)
        else:
            self._read(exchange, data)

    def _read(self, exchange: Served, data: bytes) -> None:
        if (trouble := self._parse(exchange, data)) is not None:
            self._fail(exchange, trouble)
        elif self._is_tunnel:
            pass  # it has begun, and its first bytes are on their way
        elif self._is_complete:
            self._finish(exchange)
        else:
            exchange.flush()

    def _parse(self, exchange: Served, data: bytes) -> str | None:
        """Why it is no answer; None: it is."""
        self._unseen += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if exchange.has_answer != 101:
                return "it changed the protocol unasked"
            self._is_tunnel = True
            exchange.flush()
            exchange.open_tunnel()
            if rest := data[upgrade.args[0] :]:
                exchange.pass_on(rest)
        except httptools.HttpParserError as error:
            return str(error)
        is_long = self._head_bytes > MAX_ANSWER_HEAD or self._unseen > MAX_UNSEEN
        return "its head or trailer is too long" if is_long else None

    def _finish(self, exchange: Served) -> None:
        """The whole answer is there."""
        self._exchange = None
        is_kept = self.is_open and not self._is_dirty and exchange.is_sent and self._keeps_alive
        if is_kept:
            self.was_used = True
            self._gate.keep(self)
        else:
            self.abort()
        exchange.answered()

    def _fail(self, exchange: Served, what: str) -> None:
        self._exchange = None
        self.abort()
        exchange.broken(f"The replica's answer is no HTTP: {what}.")

    # --- what the parser calls -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins; after the one that was asked for there is to be none."""
        if self._is_complete:
            self._is_dirty = True
        self._headers, self._head_bytes, self._reason = [], 0, b""

    def on_status(self, reason: bytes) -> None:
        """The words after the code."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one of a trailer, which is not passed on."""
        self._headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()
        exchange = self._exchange
        if self._is_dirty or exchange is None or (status < 200 and status != 101):
            return
        if self._head_bytes > MAX_ANSWER_HEAD:  # refused once the parser is done with this part
            return
        self._keeps_alive = self._parser.should_keep_alive()
        if exchange.begin_answer(status, self._reason, self._headers):
            return
        # No body follows, which the parser cannot know of an answer to HEAD: it is not used again.
        self._is_complete, self._is_dirty = True, True

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._unseen = 0
        if self._exchange is not None and self._exchange.has_answer and not self._is_complete and not self._is_dirty:
            self._exchange.pass_body(data)

    def on_message_complete(self) -> None:
        """That was all, if it was the answer and no notice before it."""
        self._unseen = 0
        if self._parser.get_status_code() >= 200:
            self._keeps_alive = self._parser.should_keep_alive()
            self._is_complete = True
