"""A request is refused by its size and its slowness before any view sees it, and little more of it is read."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from controlplane.security.bounded import Bounded
from controlplane.security.bounds import (
    KIB,
    MAX_BODY,
    MAX_ESCAPES,
    MAX_HEAD,
    MAX_JSON,
    MAX_MEDIA,
    MAX_MORE,
    Patience,
    max_body,
)
from tests.servers import wait_until

SILENCE = 5.0  # s after which a test takes it that no answer comes
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
LONG = 16 * 1024 * KIB  # an answer that no buffer between server and client holds
PIPE = 8 * 1024 * KIB  # what sockets and buffers may hold of what was sent and is read by nobody


class Quick(Bounded):
    """Bounded, for tests that do not wait for half a minute."""

    patience = Patience(head=0.3, body=0.3, answer=0.5, end=0.3)


class Server:
    """A server, and what its application was given."""

    def __init__(self, url: tuple[str, int], server: uvicorn.Server) -> None:
        self.url, self.server = url, server
        self.seen: list[tuple[str, int]] = []  # address, bytes of the body
        self.cookies: list[bytes] = []  # of all requests, as they came
        self.gone = 0  # requests whose body did not come to its end

    def connect(self) -> socket.socket:
        return socket.create_connection(self.url, timeout=SILENCE)

    async def application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone += 1
                return
            size, more = size + len(message["body"]), message["more_body"]
        self.seen.append((scope["path"], size))
        self.cookies += [value for name, value in scope["headers"] if name == b"cookie"]
        body = b"a" * LONG if scope["path"] == "/long" else b"ok"
        size = str(len(body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
        for begin in range(0, len(body), 64 * KIB):
            part = body[begin : begin + 64 * KIB]
            await send({"type": "http.response.body", "body": part, "more_body": begin + len(part) < len(body)})


@pytest.fixture
def served() -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    made = Server(listener.getsockname(), None)  # type: ignore[arg-type]
    config = uvicorn.Config(made.application, http=Quick, interface="asgi3", log_level="critical", lifespan="off")
    made.server = uvicorn.Server(config)
    thread = threading.Thread(target=made.server.run, args=([listener],))
    thread.start()
    wait_until(lambda: made.server.started, "the server", 20)
    yield made
    made.server.should_exit = True
    thread.join(20)


def post(*headers: str, path: str = "/") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def length(size: int, path: str = "/") -> bytes:
    return post(f"Content-Length: {size}", path=path)


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes; what it closes while we still send ends in a reset."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            got += part
    return got


def answers(connection: socket.socket, count: int) -> list[int]:
    """The next so many answers of our application, whole."""
    got = b""
    while got.count(b"\r\n\r\nok") < count:
        part = connection.recv(65_536)
        assert part, got
        got += part
    return [int(status) for status in STATUS.findall(got)]


def statuses(served: Server, *parts: bytes) -> list[int]:
    with served.connect() as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for part in parts:
                connection.sendall(part)
        return [int(status) for status in STATUS.findall(received(connection))]


def pushed(served: Server, begin: bytes, part: bytes, most: int) -> int:
    """Send a part again and again until the server takes no more; the bytes that went out."""
    out = 0
    with served.connect() as connection, contextlib.suppress(ConnectionResetError, BrokenPipeError, TimeoutError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * KIB)
        connection.sendall(begin)
        while out < most:
            connection.sendall(part)
            out += len(part)
    return out


def chunk(size: int) -> bytes:
    return b"%x\r\n" % size + b"a" * size + b"\r\n"


def test_what_is_within_the_bounds_is_answered_one_after_the_other(served: Server) -> None:
    with served.connect() as connection:
        for request in (length(MAX_BODY) + b"a" * MAX_BODY, length(0), length(3, "/api/v1/x") + b"abc"):
            connection.sendall(request)
            assert answers(connection, 1) == [200]
        connection.sendall(post("Transfer-Encoding: chunked") + chunk(5) + chunk(70_000) + b"0\r\n\r\n" + length(0))
        assert answers(connection, 2) == [200, 200]
    assert [size for _, size in served.seen] == [MAX_BODY, 0, 3, 70_005, 0]


@pytest.mark.parametrize(("path", "most"), [("/login/", MAX_BODY), ("/healthz", MAX_BODY), ("/api/v1/x", MAX_JSON)])
def test_a_body_is_refused_by_its_stated_length_before_it_is_read(served: Server, path: str, most: int) -> None:
    assert max_body(path.encode()) == most
    assert statuses(served, length(most + 1, path)) == [413]
    assert statuses(served, length(10**18, path)) == [413]
    assert served.seen == []
    assert served.gone == 0  # not even begun


@pytest.mark.parametrize("path", ["/%61pi/v1/x", "/%61%70%69%2Fv1/x", "http://x/api/v1/x", "http://x/%61pi/v1/x"])
def test_an_address_of_the_api_is_one_however_it_is_written(served: Server, path: str) -> None:
    assert statuses(served, length(MAX_JSON + 1, path)) == [413]
    assert served.seen == []


def test_who_asks_and_reads_nothing_is_not_waited_for(served: Server) -> None:
    with served.connect() as slow, served.connect() as reading:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        for connection in (slow, reading):
            connection.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(served.seen) == 2, "both answers to begin", 10)
        got = b""
        while len(got) < LONG:
            part = reading.recv(256 * KIB)
            assert part, len(got)
            got += part
        wait_until(lambda: len(served.server.server_state.connections) == 1, "the end of who reads nothing", 10)
        reading.sendall(length(0))
        assert answers(reading, 1) == [200]


def test_a_body_is_refused_by_the_bytes_that_came(served: Server) -> None:
    assert statuses(served, post("Transfer-Encoding: chunked"), chunk(MAX_BODY), chunk(1)) == [413]
    wait_until(lambda: served.gone == 1, "the end of what read the body", 10)
    assert served.seen == []


def test_a_body_in_crumbs_is_refused(served: Server) -> None:
    """Sizes of chunks, what stands beside them, and headers behind the last one are no body, and not for ever read."""
    most = 64 * 1024 * KIB
    begin = post("Transfer-Encoding: chunked")
    for part in ((b"1;" + b"x" * 1000 + b"\r\na\r\n") * 64, b"1\r\na\r\n" * 10_000):
        assert pushed(served, begin, part, most) < PIPE, part[:20]
    assert pushed(served, begin + b"0\r\nX: ", b"a" * 64 * KIB, most) < PIPE
    assert served.seen == []


def test_of_what_is_refused_little_more_is_read(served: Server) -> None:
    """Without an end, what went out would be all that the test is ready to send."""
    most = 64 * 1024 * KIB
    for begin, part in (
        (length(10**12), b"a" * 64 * KIB),
        (post("Transfer-Encoding: chunked"), chunk(64 * KIB)),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 64 * KIB),
        (b"", b"\r\n" * 32 * KIB),
    ):
        assert pushed(served, begin, part, most) < PIPE, begin
    assert MAX_MORE == 64 * KIB
    assert served.seen == []


@pytest.mark.parametrize(
    "parts",
    [
        (b"GET /" + b"a" * MAX_HEAD + b" HTTP/1.1\r\nHost: x\r\n\r\n",),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD + b"\r\n\r\n",),
        (b"GET / HTTP/1.1\r\n", b"X: a\r\n" * 7_000, b"\r\n"),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 20_000, b"a" * 20_000),
    ],
)
def test_a_head_is_refused_by_its_size(served: Server, parts: tuple[bytes, ...]) -> None:
    assert statuses(served, *parts) == [431]
    assert served.seen == []


def test_a_head_below_the_bound_is_taken(served: Server) -> None:
    large = b"GET / HTTP/1.1\r\nConnection: close\r\nX: " + b"a" * (MAX_HEAD - 200) + b"\r\n\r\n"
    assert statuses(served, large) == [200]


@pytest.mark.parametrize(
    ("lines", "are_read"),
    [
        (['a="' + "\\" * MAX_ESCAPES], True),
        (['a="' + "\\" * (MAX_ESCAPES + 1)], False),
        (['a="' + '\\"' * 15_000], False),
        (['a="\\'] * (MAX_ESCAPES + 1), False),  # the lines are joined before they are read
        (["a=1", 'b="' + "\\" * 100, "c=1"], False),
    ],
)
def test_cookies_with_many_escapes_are_not_read(served: Server, lines: list[str], are_read: bool) -> None:
    with served.connect() as connection:
        connection.sendall(post("Content-Length: 0", *(f"COOKIE: {line}" for line in lines)))
        assert answers(connection, 1) == [200]
    assert served.cookies == ([line.encode() for line in lines] if are_read else [])


@pytest.mark.parametrize("name", ["Accept", "content-type"])
def test_headers_that_are_dear_to_read_are_short(served: Server, name: str) -> None:
    assert statuses(served, post(f"{name}: " + ";" * MAX_MEDIA)) == [431]
    assert statuses(served, post(*[f"{name}: " + "a," * (MAX_MEDIA // 4)] * 2)) == [431]
    assert statuses(served, post(f"{name}: " + ";" * (MAX_MEDIA - 1), "Connection: close")) == [200]


@pytest.mark.parametrize(
    ("parts", "answered"),
    [
        ((b"",), []),  # nothing was asked
        ((b"\r\n\r\n",), []),
        ((b"GET / HT",), [408]),
        ((b"GET / HTTP/1.1\r\nX: a\r\n",), [408]),
        ((length(10), b"abc"), [408]),
        ((post("Transfer-Encoding: chunked"), chunk(5)), [408]),
        ((length(0), b"GET / HT"), [200, 408]),
    ],
)
def test_what_does_not_come_is_not_waited_for(served: Server, parts: tuple[bytes, ...], answered: list[int]) -> None:
    assert statuses(served, *parts) == answered
    wait_until(lambda: not served.server.server_state.connections, "the end of the connection", 10)


def test_a_body_that_comes_slowly_is_waited_for_as_long_as_it_comes(served: Server) -> None:
    """Ten times a tenth of a second is three times as long as it may stand still."""
    with served.connect() as connection:
        connection.sendall(length(20 * KIB))
        for _ in range(10):
            threading.Event().wait(0.1)
            connection.sendall(b"a" * 2 * KIB)
        assert answers(connection, 1) == [200]
    assert served.seen == [("/", 20 * KIB)]


def test_the_refusal_says_what_to_do_and_carries_the_headers(served: Server) -> None:
    with served.connect() as connection:
        connection.sendall(length(MAX_JSON + 1, "/api/v1/workloads"))
        head, _, body = received(connection).partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"content-security-policy: default-src 'none'" in head
    assert b"The body is larger than 256 KiB. Send less at once." in body


def test_nobody_changes_to_another_protocol(served: Server) -> None:
    asks = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with served.connect() as connection:
        connection.sendall(asks)
        assert answers(connection, 1) == [200]
