"""A Prometheus that answers whatever a test wants: a fake at the port, for what a real one does on its worst days."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Row = tuple[dict[str, str], str]
NOW = 1_700_000_000.0


def vector(rows: list[Row], at: float = NOW) -> bytes:
    """An instant vector, as Prometheus writes it."""
    result = [{"metric": labels, "value": [at, value]} for labels, value in rows]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@dataclass
class FakePrometheus:
    """Answers each query by the first rule whose words stand in it; without a rule, with nothing."""

    url: str = ""
    rules: list[tuple[str, bytes | list[Row]]] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    write: Callable[[Any, bytes], None] | None = None  # in place of sending the body at once
    asked: list[dict[str, str]] = field(default_factory=list)  # parameters and headers, oldest first
    ended: threading.Event = field(default_factory=threading.Event)

    def says(self, words: str, rows: bytes | list[Row]) -> None:
        self.rules.insert(0, (words, rows))

    def body(self, query: str) -> bytes:
        for words, rows in self.rules:
            if words in query:
                return rows if isinstance(rows, bytes) else vector(rows)
        return vector([])


@contextlib.contextmanager
def serving() -> Iterator[FakePrometheus]:
    """One on a loopback port."""
    fake = FakePrometheus()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            given = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            fake.asked.append(given | {name.lower(): value for name, value in self.headers.items()})
            body = fake.body(given.get("query", ""))
            with contextlib.suppress(ConnectionError):
                self.send_response(fake.status)
                for name, value in ({"Content-Length": str(len(body))} | fake.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                if fake.write is not None:
                    fake.write(self.wfile, body)
                else:
                    self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        fake.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
