"""Requests are bounded before any of them reaches a view: head and body in bytes, and in the time they take to come.

The server reads a request into memory, and Django what is long into a file; neither asks how much there is. So a
stranger could fill both, or hold connections open by sending nothing, or by reading nothing of a long answer. Here a
request over its bounds is refused (408, 413, 431) as soon as that is known, and a little more of it is read, so that
the client gets the answer before the end.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from controlplane.runtime.nodelay import NoDelay
from controlplane.security import bounds

HEADERS = (
    b"cache-control: no-store\r\n"
    b"content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n"
    b"cross-origin-opener-policy: same-origin\r\n"
    b"cross-origin-resource-policy: same-origin\r\n"
    b"permissions-policy: camera=(), microphone=(), geolocation=()\r\n"
    b"referrer-policy: same-origin\r\n"
    b"x-content-type-options: nosniff\r\n"
    b"x-frame-options: DENY\r\n"
    b"connection: close\r\n"
)
CODES = {408: "Timeout", 413: "TooLarge", 431: "TooLarge"}
# What is read at once goes through here: a read, and all that is done with it, is one step of the event loop.
_BUFFER = memoryview(bytearray(bounds.MAX_MORE))


class Bounded(NoDelay, asyncio.BufferedProtocol):
    """The server's protocol with bounds; for `uvicorn --http controlplane.security.bounded:Bounded`."""

    patience = bounds.Patience()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ws_protocol_class = None  # no WebSocket: its protocol would be without bounds
        self._timer: asyncio.TimerHandle | None = None
        self._awaited = ""  # what the timer runs for: head, body
        self._in_head = True  # a head is next, or the rest of one
        self._has_begun = False  # of the request that is being read, the first byte has come
        self._has_ended = False  # a request ended in the present read
        self._head = self._parts = 0  # bytes of this head: as they were read, and as the parser knows them
        self._body = self._moved = 0  # bytes of this body: all, and when the timer began
        self._framing = 0  # bytes that were read with this body and are none of it: sizes of chunks, trailers
        self._most = 0  # bytes that this body may have
        self._refused = False
        self._more = 0  # bytes that are still read after a refusal
        self._untaken = 0  # bytes of an answer that waited for their reader when it was last looked
        self._reader: asyncio.TimerHandle | None = None  # runs while there are too many of them

    # --- what the event loop calls -------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to: so much at once, and no more."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self.data_received(bytes(_BUFFER[:nbytes]))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, and not for ever."""
        super().connection_made(transport)
        self._wait("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait("")
        self._await_reader(False)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the reader of the answer, and not for ever."""
        super().pause_writing()
        self._await_reader(True)

    def resume_writing(self) -> None:
        """Enough was read; there may be more to write."""
        self._await_reader(False)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Count, and give to the parser."""
        if self._refused:
            self._more -= len(data)
            if self._more < 0:
                self.transport.abort()
            return
        if self._in_head:
            self._head += len(data)
        else:
            self._framing += len(data)
        self._has_ended = False
        super().data_received(data)
        if self._is_refused:  # by what the parser called
            return
        if self._parts > bounds.MAX_HEAD or (self._in_head and self._head > bounds.MAX_HEAD):
            self._refuse(431, f"The head of the request is larger than {bounds.MAX_HEAD // bounds.KIB} KiB.")
        elif not self._in_head and self._framing > bounds.MAX_HEAD:
            self._refuse(413, "The body is sent in too many small parts.")
        else:
            is_between = self._in_head and self._has_ended and not self._has_begun
            self._wait("" if is_between else "head" if self._in_head else "body")

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless it was refused already."""
        if not self._refused:
            super().send_400_response(msg)

    # --- what the parser calls ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._has_begun, self._parts = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count a part of the address."""
        self._parts += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer."""
        self._parts += len(name) + len(value) + len(": \r\n")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with the request, unless it is known already that it is too large."""
        if self._refused or self._parts > bounds.MAX_HEAD:
            return
        self._most = bounds.max_body(self.url)
        if next((int(value) for name, value in self.headers if name == b"content-length"), 0) > self._most:
            self._refuse_body()
            return
        if name := bounds.too_long(self.headers):
            self._refuse(431, f"The header {name} is larger than {bounds.MAX_MEDIA // bounds.KIB} KiB.")
            return
        if bounds.is_dear_cookie(self.headers):  # as if no cookies had been sent; the application has this very list
            self.headers[:] = [one for one in self.headers if one[0] != b"cookie"]
        self._in_head = False
        self._body = self._moved = self._framing = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count a part of the body."""
        if self._is_given_up:
            return
        self._body += len(body)
        self._framing -= len(body)
        if self._body > self._most:
            self._refuse_body()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole; the next one may begin."""
        if self._is_given_up:
            return
        self._in_head, self._has_begun, self._has_ended, self._head, self._parts = True, False, True, 0, 0
        self._wait("")
        super().on_message_complete()

    # --- bounds ---------------------------------------------------------------------------------

    @property
    def _is_refused(self) -> bool:
        return self._refused

    @property
    def _is_given_up(self) -> bool:
        return self._refused or self._parts > bounds.MAX_HEAD

    def _wait(self, what: str) -> None:
        """Have a look after some time whether there is more of it; go on waiting if it is waited for already."""
        if what == self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = what
        self._timer = self.loop.call_later(getattr(self.patience, what), self._look) if what else None

    def _look(self) -> None:
        """Refuse what has not come, unless it is the server that does not read, because of what was asked before."""
        awaited, self._awaited = self._awaited, ""
        if awaited == "end":
            self.transport.abort()
        elif self.flow.read_paused:
            self._wait(awaited)
        elif awaited == "head":
            self._late_head()
        elif self._body - self._moved < bounds.MIN_GROWTH:
            self._refuse(408, f"The body stood still for {self.patience.body:g} s.")
        else:
            self._moved = self._body
            self._wait(awaited)

    def _await_reader(self, is_awaited: bool) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._untaken = self.transport.get_write_buffer_size() if is_awaited else 0
        self._reader = self.loop.call_later(self.patience.answer, self._look_at_reader) if is_awaited else None

    def _look_at_reader(self) -> None:
        """End the connection of a client that asks and does not read: each holds a part of an answer."""
        if self._untaken - self.transport.get_write_buffer_size() < bounds.MIN_TAKEN:
            self.transport.abort()
        else:
            self._await_reader(True)

    def _late_head(self) -> None:
        if self._has_begun:
            self._refuse(408, f"The head of the request took longer than {self.patience.head:g} s.")
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()  # nothing was asked

    def _refuse_body(self) -> None:
        self._refuse(413, f"The body is larger than {self._most // bounds.KIB} KiB. Send less at once.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer, and end the connection."""
        self._refused = True
        self._unset_keepalive_if_required()
        cycle: Any = self.cycle  # of this request once its head is whole, else of the one before
        if self._in_head:
            is_free = cycle is None or cycle.response_complete
        else:
            is_free = not self.pipeline and not cycle.response_started
            cycle.disconnected, cycle.body = True, bytearray()  # the reader of the body learns that no more comes
            cycle.message_event.set()
        if not is_free:  # another answer is not whole: ours would stand in the middle of it
            self.transport.close()
            return
        self.transport.write(self._answer(status, message))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._more = bounds.MAX_MORE
        self._wait("end")

    def _answer(self, status: int, message: str) -> bytes:
        title = HTTPStatus(status).phrase
        kind, body = "text/plain; charset=utf-8", message
        if getattr(self, "url", b"").startswith(b"/api/"):
            kind = "application/problem+json"
            fault = {"field": "", "message": message}
            said = {"type": "about:blank", "title": title, "status": status, "code": CODES[status], "detail": message}
            body = json.dumps({**said, "errors": [fault]})
        head = f"HTTP/1.1 {status} {title}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        return head.encode() + HEADERS + b"\r\n" + body.encode()
