"""A model server's sleep mode, as vLLM's answers: what a pod that KWOK plays cannot do by itself."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

_numbers = count(2)


class Sleeper:
    """One replica's server, on an address of this machine's own. knows: whether it has a sleep mode at all."""

    def __init__(self, port: int, *, knows: bool = True) -> None:
        self.is_sleeping = False
        self.asked: list[str] = []
        number = next(_numbers)
        # Of 127.0.0.0/8, so that each replica has the same port on another address.
        self.address = f"127.88.{number // 250}.{number % 250 + 2}"
        self._server = ThreadingHTTPServer((self.address, port), _handler(self, knows=knows))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


def _handler(sleeper: Sleeper, *, knows: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = knows and self.path == "/is_sleeping"
            self._answer(json.dumps({"is_sleeping": sleeper.is_sleeping}) if is_known else None)

        def do_POST(self) -> None:
            sleeper.asked.append(self.path)
            known = {"/sleep?level=1": True, "/wake_up": False}
            if knows and self.path in known:
                sleeper.is_sleeping = known[self.path]
                self._answer("")
            else:
                self._answer(None)

        def _answer(self, text: str | None) -> None:
            self.send_response(404 if text is None else 200)
            body = (text or "").encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler
