"""A model server for tests, and what a proxy beside it would count: run in a container as `python3 -c SOURCE`, so it
imports no module of ours.

`GET /MILLISECONDS/STATUS` on port 8000 is answered with this status and the pod's name after so long. After FAIL_AFTER
requests, if its environment has that, it fails all others. Port 15020 tells of the requests as Istio's proxy does.
"""

import os
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, PROXY_PORT = 8000, 15020
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1000)  # ms
CODES = (200, 500)
NAME = socket.gethostname()
FAIL_AFTER = float(os.environ.get("FAIL_AFTER", "inf"))
LABELS = 'reporter="destination",response_code="{}"'

seen: dict[int, list[float]] = {code: [] for code in CODES}  # how long requests took, in ms


def page() -> str:
    """The two families that Weft reads."""
    lines = ["# TYPE istio_requests_total counter"]
    lines += [f"istio_requests_total{{{LABELS.format(code)}}} {len(seen[code])}" for code in CODES]
    lines.append("# TYPE istio_request_duration_milliseconds histogram")
    for code in CODES:
        took, labels = list(seen[code]), LABELS.format(code)
        for bound in (*BOUNDS, float("inf")):
            le = "+Inf" if bound == float("inf") else bound
            count = sum(one <= bound for one in took)
            lines.append(f'istio_request_duration_milliseconds_bucket{{{labels},le="{le}"}} {count}')
        lines.append(f"istio_request_duration_milliseconds_count{{{labels}}} {len(took)}")
        lines.append(f"istio_request_duration_milliseconds_sum{{{labels}}} {sum(took)}")
    return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    """Answers, and says nothing of it in the log."""

    def answer(self, code: int, body: str) -> None:
        """Send this text."""
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; version=0.0.4")  # Prometheus reads nothing without it
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Be silent."""


class Model(Handler):
    """The server itself, with the proxy's count."""

    def do_GET(self) -> None:  # noqa: N802  its name is the library's
        """As the path says."""
        began = time.monotonic()
        wait, code = (int(part) for part in self.path.strip("/").split("/"))
        time.sleep(wait / 1000)
        code = code if sum(map(len, seen.values())) < FAIL_AFTER else 500
        seen[code].append(1000 * (time.monotonic() - began))
        self.answer(code, NAME)


class Server(ThreadingHTTPServer):
    """Told to end, it answers what it has begun with."""

    daemon_threads = False


class Proxy(Handler):
    """What is counted."""

    def do_GET(self) -> None:  # noqa: N802  its name is the library's
        """All of it."""
        self.answer(200, page())


if __name__ == "__main__":
    proxy = ThreadingHTTPServer(("", PROXY_PORT), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    with Server(("", PORT), Model) as server:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        server.serve_forever()
