"""Receivers of webhooks as they are out there: real HTTPS servers on a loopback address, good and bad."""

import contextlib
import itertools
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

NETWORK = "127.77.0.0/16"  # all of 127/8 is this machine; a receiver gets an address of its own, and so may have 8443
PORT = 8443
_numbers = itertools.count(1)


@dataclass
class Receiver:
    """One receiver. What it answers is in the path: /ok, /500, /302, /slow, /huge, /head, /drip, /nonsense."""

    address: str
    ca: Path
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)  # of the path /next, one after the other
    released: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    sent: int = 0  # bytes of a huge answer that were taken

    def url(self, path: str) -> str:
        return f"https://{self.address}:{PORT}{path}"

    def note(self, headers: dict[str, str], body: bytes) -> None:
        with self.arrived:
            self.requests.append((headers, body))
            self.arrived.notify_all()

    def wait(self, count: int, seconds: float = 20.0) -> None:
        """Until so many requests have come."""
        with self.arrived:
            there = self.arrived.wait_for(lambda: len(self.requests) >= count, seconds)
        assert there, f"{len(self.requests)} of {count} requests after {seconds:g} s"


@contextmanager
def receiver(folder: Path) -> Iterator[Receiver]:
    """Run one."""
    number = next(_numbers)
    address = f"127.77.{os.getpid() % 250 + 1}.{number % 250 + 1}"
    authority = trustme.CA()
    ca = folder / f"ca-{number}.pem"
    authority.cert_pem.write_to_path(ca)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(address, "hooks.example.test").configure_cert(tls)
    made = Receiver(address, ca)
    server = _Server((address, PORT), _handler(made), tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def trap() -> Iterator["Trap"]:
    """A listener on the loopback addresses of IPv4 and IPv6 that nothing may ever reach."""
    four = socket.create_server(("127.0.0.1", 0))
    port = four.getsockname()[1]
    listeners = [four]
    if socket.has_ipv6:
        with contextlib.suppress(OSError):  # a machine without IPv6: then nothing can reach it there either
            listeners.append(socket.create_server(("::1", port), family=socket.AF_INET6))
    made = Trap(port, listeners)
    try:
        yield made
    finally:
        for listener in listeners:
            listener.close()


@dataclass
class Trap:
    """`connections` looks how many came: the system keeps those that nobody accepted yet."""

    port: int
    listeners: list[socket.socket]

    def connections(self) -> int:
        count = 0
        for listener in self.listeners:
            listener.setblocking(False)
            while True:
                try:
                    listener.accept()[0].close()
                except BlockingIOError:
                    break
                count += 1
        return count


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, at: tuple[str, int], handler: Any, tls: ssl.SSLContext) -> None:
        self.tls = tls
        super().__init__(at, handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self.tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


def _handler(of: Receiver) -> type["_Handler"]:
    return type("Handler", (_Handler,), {"of": of})


class _Handler(BaseHTTPRequestHandler):
    """Answers as the path says; a number is a status."""

    protocol_version = "HTTP/1.1"
    of: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.of.note(dict(self.headers), body)
        what = self.path.partition("?")[0].removeprefix("/")
        special = {
            "slow": self._slow,
            "huge": self._huge,
            "head": self._head,
            "drip": self._drip,
            "nonsense": self._nonsense,
            "302": self._redirect,
            "next": self._next,
        }
        special.get(what, lambda: self._answer(int(what) if what.isdigit() else 200))()

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _slow(self) -> None:
        self.of.released.wait(60)

    def _redirect(self) -> None:
        self._answer(302, Location=self.of.url("/ok"))

    def _next(self) -> None:
        self._answer(self.of.answers.pop(0) if self.of.answers else 200)

    def _head(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Much: " + b"x" * 1_000_000 + b"\r\n\r\n")

    def _nonsense(self) -> None:
        self.wfile.write(b"220 mail.example ESMTP\r\n")

    def _huge(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        for _ in range(1024):
            self.wfile.write(b"x" * 1_048_576)
            self.of.sent += 1_048_576

    def _drip(self) -> None:
        for one in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: 1\r\n" * 100:
            self.wfile.write(bytes([one]))
            if self.of.released.wait(0.2):
                return

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""
