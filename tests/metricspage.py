"""A page of metrics that a test makes up, where a Prometheus looks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def page(says: str | Callable[[], str | None], port: int = 0) -> Iterator[str]:
    """Serve this text on loopback; host:port. Where it is None the connection ends without an answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = says if isinstance(says, str) else says()
            if text is None:
                self.close_connection = True
                return
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
