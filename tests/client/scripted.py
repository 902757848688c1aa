"""A real HTTP server that answers by script: for what a healthy server never does."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Answer:
    """What is sent for one request. `fault`: drop (no answer), cut (half of the body), hang (until the test ends)."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


def problem(status: int, code: str, *errors: tuple[str, str], **headers: str) -> Answer:
    """A refusal as the API words it."""
    listed = [{"field": name, "message": message} for name, message in errors]
    document = {"type": "about:blank", "title": "No", "status": status, "code": code, "errors": listed}
    document["detail"] = errors[0][1] if errors else "No."
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(document, status, {"Content-Type": "application/problem+json", **headers})


def page(*results: Any, next: str | None = None) -> Answer:
    return Answer({"next": next, "previous": None, "results": list(results)})


class Scripted:
    """Answers each (method, path) in the order given; the last answer stays."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                server._handle(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def on(self, method: str, path: str, *answers: Answer | Mapping[str, Any]) -> None:
        given = [one if isinstance(one, Answer) else Answer(one) for one in answers]
        self.answers[method, f"/api/v1{path}"] = given

    def sent(self, method: str, path: str) -> list[Request]:
        return [one for one in self.requests if (one.method, one.path) == (method, f"/api/v1{path}")]

    def close(self) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(5)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = json.loads(raw) if raw else None
        self.requests.append(Request(handler.command, parts.path, dict(parse_qsl(parts.query)), headers, body))
        script = self.answers.get((handler.command, parts.path), [problem(404, "NotFound")])
        answer = script.pop(0) if len(script) > 1 else script[0]
        if answer.fault == "hang":
            self.released.wait(30)
        if answer.fault in ("drop", "hang"):
            handler.close_connection = True
            return
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[: len(content) // 2] if answer.fault == "cut" else content)
        handler.close_connection = handler.close_connection or answer.fault == "cut"


def workload(name: str = "hello", phase: str = "Queued", team: str = "nlp", **more: Any) -> dict[str, Any]:
    """A workload as the API shows it in a list."""
    number = abs(hash((team, name, more.get("attempt")))) % 10**12
    return {
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "seq": 1,
        "name": name,
        "team": team,
        "type": "training",
        "phase": phase,
        "reason": "",
        "message": "",
        "priority_class": "normal",
        "priority": 100,
        "preemptible": True,
        "created_by": "mel",
        "workers": {"count": 1, "min": 1, "max": 1, "placed": 0, "running": 0},
        "resources": {"gpus": 1, "milli_gpu": 1000},
        "position": None,
        "attempt": 1,
        "exit_code": None,
        "progress": None,
        "after": [],
        "unmet": [],
        "submitted_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "ended_at": None,
        "version": 1,
        **more,
    }


def created(*documents: dict[str, object]) -> Answer:
    """The answer to a submission of these."""
    return Answer(documents[0] if len(documents) == 1 else {"results": list(documents)}, 201)
