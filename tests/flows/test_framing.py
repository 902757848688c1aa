"""Where a request ends is beyond doubt: what two servers could read as one request or as two is refused."""

import contextlib
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from tests.flows.processes import Server, up

SECOND = b"GET /healthz HTTP/1.1\r\nHost: HOST\r\nX-Second: yes\r\n\r\n"
SILENCE = 3.0  # s: who is not answered by then waits for more of a body; a refusal closes the connection at once
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def post(*headers: bytes, body: bytes = SECOND) -> bytes:
    """A request whose body could be taken for the next request."""
    return b"\r\n".join([b"POST /api/v1/login HTTP/1.1", b"Host: HOST", *headers, b"", body])


# What is sent -> how often it may be answered: a server that took the body for a request would answer once more.
CORPUS = {
    "both lengths": post(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SECOND),
    "both, the other way round": post(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + SECOND),
    "two lengths": post(b"Content-Length: 0", b"Content-Length: 5"),
    "two lengths in one": post(b"Content-Length: 0, 5"),
    "a length with a sign": post(b"Content-Length: +0"),
    "a negative length": post(b"Content-Length: -1"),
    "a length in hexadecimal": post(b"Content-Length: 0x0"),
    "a length with a blank": post(b"Content-Length: 0 0"),
    "a blank before the colon": post(b"Content-Length : 0"),
    "an encoding that nobody knows": post(b"Transfer-Encoding: xchunked"),
    "chunked and more": post(b"Transfer-Encoding: chunked, identity"),
    "chunked twice": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    "a chunk of no size": post(b"Transfer-Encoding: chunked", body=b"zz\r\n\r\n" + SECOND),
    "a chunk with a sign": post(b"Transfer-Encoding: chunked", body=b"-1\r\n\r\n" + SECOND),
    "a huge chunk": post(b"Transfer-Encoding: chunked", body=b"f" * 40 + b"\r\n\r\n" + SECOND),
    "NUL in a header": post(b"Content-Length: 0", b"X: a\0b"),
    "a line without a colon": post(b"Content-Length: 0", b"nothing"),
    "a blank in a name": post(b"Content-Length: 0", b"X Y: a"),
    "a version of tomorrow": b"GET /healthz HTTP/9.9\r\nHost: HOST\r\n\r\n" + SECOND,
}


def answers(weft: Server, raw: bytes) -> list[int]:
    """The statuses that come back until the server closes or is silent."""
    where = urlsplit(weft.url)
    host = f"{where.hostname}:{where.port}".encode()
    got = b""
    with socket.create_connection((where.hostname, where.port), timeout=SILENCE) as connection:
        connection.sendall(raw.replace(b"HOST", host))
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while part := connection.recv(65_536):
                got += part
    return [int(status) for status in STATUS.findall(got)]


def test_no_request_hides_another(home: Path) -> None:
    with up(home) as weft:
        plain = b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"
        assert answers(weft, plain + SECOND) == [200, 200]  # two requests that are two
        found = {what: answers(weft, raw) for what, raw in CORPUS.items()}
        # Refused, or not answered at all; and what stood behind it was never taken for a request.
        assert {what: statuses for what, statuses in found.items() if statuses not in ([], [400])} == {}
        assert weft.http.get("/healthz").status_code == 200
        # The server that people start has its bounds; what each of them is, tests/controlplane/test_bounded.py tries.
        assert answers(weft, post(b"Content-Length: 1048577", body=b"")) == [413]
        assert answers(weft, plain.replace(b"\r\n\r\n", b"\r\nX: " + b"a" * 40_000 + b"\r\n\r\n")) == [431]
