"""One request and its answer, between a client's connection and a replica's.

Its body is kept until it is whole or HELD bytes have come; only then it waits for a replica, so that a client that
sends slowly takes no slot. What comes after that is passed on as it comes, and the answer at once.
"""

from typing import Protocol

from autoscaler.lanes import Taken
from controlplane.activator import heads
from controlplane.activator.heads import Head
from controlplane.activator.upstream import Upstream

HELD = 64 * 2**10  # bytes
REPEATABLE = (b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE")
TOO_LARGE = "The body has more than {} bytes, which is the most that is taken here. Send less at once."


class Asking(Protocol):
    """The client's connection, as a request sees it."""

    peer: str
    is_trusted: bool

    @property
    def is_stalled(self) -> bool: ...  # noqa: D102
    @property
    def is_to_close(self) -> bool: ...  # noqa: D102
    def write(self, data: bytes) -> None: ...  # noqa: D102
    def finished(self, exchange: "Exchange") -> None: ...  # noqa: D102
    def hold(self) -> None: ...  # noqa: D102
    def release(self) -> None: ...  # noqa: D102
    def open_tunnel(self, exchange: "Exchange") -> None: ...  # noqa: D102
    def abort(self) -> None: ...  # noqa: D102


class Queue(Protocol):
    """The service's queue, as a request sees it."""

    def arrive(self, exchange: "Exchange") -> None: ...  # noqa: D102
    def again(self, exchange: "Exchange") -> None: ...  # noqa: D102
    def leave(self, exchange: "Exchange") -> None: ...  # noqa: D102
    def first_byte(self, exchange: "Exchange") -> None: ...  # noqa: D102
    def ended(self, exchange: "Exchange", code: int, is_whole: bool) -> None: ...  # noqa: D102


class Exchange:
    """Made when a request's head is there; `start` when those before it on its connection are answered."""

    __slots__ = (
        "_body", "_body_bytes", "_chunks_answer", "_client", "_ends_with_connection", "_gate", "_has_body",
        "_has_started", "_is_tunnel", "_out", "_retried", "_sends_chunks", "_upstream", "arrived_at", "closes",
        "first_at", "handed_at", "has_answer", "head", "is_over", "is_queued", "is_sent", "is_whole", "received",
        "taken",
    )  # fmt: skip

    def __init__(self, client: Asking, gate: Queue, head: Head) -> None:
        self._client, self._gate, self.head = client, gate, head
        self._body: list[bytes] = []
        self._body_bytes = self.received = 0
        self._out: list[bytes] = []
        self._upstream: Upstream | None = None
        self.taken: Taken[Exchange] | None = None
        self.arrived_at = self.handed_at = self.first_at = 0.0
        self._has_body = False
        self.has_answer = 0  # its status
        self._has_started = self._sends_chunks = self._chunks_answer = self._ends_with_connection = False
        self._is_tunnel = self._retried = False
        self.closes = not head.keeps_alive  # its connection, after it
        self.is_queued = self.is_over = False
        self.is_whole = self.is_sent = False  # all of the request has come; and was passed on

    # --- from the client -------------------------------------------------------------------------

    def start(self) -> None:
        """Its turn on its connection has come."""
        self._has_started = True
        if self.head.expects_continue and not self.is_whole:
            self._client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._queue()

    def feed(self, data: bytes) -> None:
        """A part of its body."""
        self.received += len(data)
        if self._upstream is not None:
            self._upstream.send(b"%x\r\n%s\r\n" % (len(data), data) if self._sends_chunks else data)
            return
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > HELD:
            self._client.hold()
            self._queue()

    def end(self) -> None:
        """All of it has come."""
        self.is_whole = True
        if self._upstream is None:
            self._queue()
            return
        self.is_sent = True
        if self._sends_chunks:
            self._upstream.send(b"0\r\n\r\n")

    def client_gone(self) -> None:
        """Its client has left: a replica works no further for it."""
        if self.is_over:
            return
        self.is_over = True
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.abort()
            self._gate.ended(self, 101 if self._is_tunnel else 499, self._is_tunnel)
        elif self.is_queued:
            self._gate.leave(self)

    def tunnel(self, data: bytes) -> None:
        """From the client, of what the two now speak."""
        if self._upstream is not None:
            self._upstream.send(data)

    # --- from the gate ---------------------------------------------------------------------------

    def hand_over(self, upstream: Upstream, now: float) -> None:
        """A replica's connection is there: send what has come so far."""
        self._upstream, self.handed_at = upstream, self.handed_at or now
        length = self.head.length
        if length is None and self.is_whole:
            length = self._body_bytes
        elif length == 0 and not any(name == b"content-length" for name, _ in self.head.headers):
            length = -1
        self._sends_chunks = length is None
        parts = [heads.request(self.head, length, self._client.peer, self._client.is_trusted)]
        if self._sends_chunks:
            parts += [b"%x\r\n%s\r\n" % (len(part), part) for part in self._body]
        else:
            parts += self._body
        self.is_sent = self.is_whole
        if not self._may_repeat(upstream):
            self._body = []
        upstream.serve(self, b"".join(parts) if len(parts) > 1 else parts[0])
        self._client.release()

    def refuse(self, status: int, message: str, more: bytes = b"") -> None:
        """It gets an answer of ours; it was counted."""
        self.is_over = True
        self.closes = self.closes or not self.is_whole or self.head.is_websocket
        self._client.write(heads.problem(status, message, more, keeps_alive=not self.closes))
        self._client.finished(self)

    # --- from the replica ------------------------------------------------------------------------

    def heard(self) -> None:
        """Something has come: the request was taken, and is not sent again."""
        self._retried = True

    def begin_answer(self, status: int, reason: bytes, headers: list[tuple[bytes, bytes]]) -> bool:
        """The answer's head; False: no body follows, whatever it says."""
        self.has_answer = status
        lengths = [value for name, value in headers if name == b"content-length"]
        is_coded = any(name == b"transfer-encoding" for name, _ in headers)
        is_head = self.head.method == b"HEAD"
        self.closes = self.closes or not self.is_sent or self.head.is_websocket or self._client.is_to_close
        framing = b""
        if status == 101:
            framing = b"connection: upgrade\r\nupgrade: websocket\r\n"
        elif status == 204 or is_head or status == 304:
            framing = b"content-length: %s\r\n" % lengths[0] if lengths and status != 204 else b""
        elif lengths and not is_coded:
            framing = b"content-length: %s\r\n" % lengths[0]
        else:
            self._ends_with_connection = not is_coded
            self._chunks_answer = self.head.version == "1.1"
            self.closes = self.closes or not self._chunks_answer
            framing = b"transfer-encoding: chunked\r\n" if self._chunks_answer else b""
        if status != 101:
            if self.closes:
                framing += b"connection: close\r\n"
            elif self.head.version == "1.0":
                framing += b"connection: keep-alive\r\n"
        self._out.append(heads.response(status, reason, headers, framing))
        return not is_head

    def pass_body(self, data: bytes) -> None:
        """A part of the answer's body; `flush` sends what has gathered."""
        if not self._has_body:
            self._has_body = True
            self._gate.first_byte(self)
        if self._chunks_answer:
            self._out.append(b"%x\r\n%s\r\n" % (len(data), data))
        else:
            self._out.append(data)

    def pass_on(self, data: bytes) -> None:
        """From the replica, of what the two now speak."""
        self._client.write(data)

    def flush(self) -> None:
        """Send what there is."""
        if self._client.is_stalled:  # still, from the answer before
            self.hold_replica()
        if self._out:
            self._client.write(b"".join(self._out) if len(self._out) > 1 else self._out[0])
            self._out.clear()

    def answered(self) -> None:
        """The answer is whole."""
        if self._chunks_answer:
            self._out.append(b"0\r\n\r\n")
        self._upstream = None
        self.flush()
        self.is_over = True
        self._gate.ended(self, self.has_answer, True)
        self._client.finished(self)

    def open_tunnel(self) -> None:
        """Both speak another protocol from here on."""
        self._is_tunnel = True
        self._client.open_tunnel(self)

    def upstream_lost(self, upstream: Upstream) -> None:
        """The replica's connection has ended: as it should, by an old connection's race, or in the middle."""
        if self._ends_with_connection or self._is_tunnel:
            self.closes = self.closes or self._is_tunnel
            self.answered()
        elif self._may_repeat(upstream):
            self._retried, self._upstream = True, None
            self._gate.again(self)
        else:
            self.broken("The replica closed the connection before its answer was whole. Try again.")

    def broken(self, message: str) -> None:
        """There will be no whole answer."""
        self.is_over, self._upstream, self.closes = True, None, True
        self._gate.ended(self, 502, False)
        if self.has_answer:
            self._client.abort()  # a cut that the client notices
        else:
            self._client.write(heads.problem(502, message))
            self._client.finished(self)

    def hold_client(self) -> None:
        """The replica is slower than the client."""
        self._client.hold()

    def release_client(self) -> None:
        """It has caught up."""
        self._client.release()

    def hold_replica(self) -> None:
        """The client is slower than the replica."""
        if self._upstream is not None:
            self._upstream.pause()

    def release_replica(self) -> None:
        """It has caught up."""
        if self._upstream is not None:
            self._upstream.resume()

    def _queue(self) -> None:
        if self._has_started and not self.is_queued and (self.is_whole or self._body_bytes > HELD):
            self.is_queued = True
            self._gate.arrive(self)

    def _may_repeat(self, upstream: Upstream) -> bool:
        """Whether it may be sent again: nothing was heard of it on a connection that may have been closed already."""
        return (
            upstream.was_used and not self._retried and self.is_whole and self.head.method in REPEATABLE
            and not self.head.is_websocket
        )  # fmt: skip
