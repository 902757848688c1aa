"""Weft as a user runs it: real processes, spoken to over HTTP."""

import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.servers import ROOT, answers, environment, free_port, running, wait_until

READY_SECONDS = 90.0  # on a machine that does other things as well


@dataclass
class Server:
    """A running `manage.py up`, and a client signed in as its platform admin."""

    process: subprocess.Popen[bytes]
    url: str
    home: Path
    http: httpx.Client

    def submit(self, name: str, **fields: Any) -> httpx.Response:
        """POST a small training under an Idempotency-Key of its name."""
        job = {"type": "training", "name": name, "team": "nlp", "image": "example/train:1", "resources": {"gpus": 1}}
        return self.http.post("/api/v1/workloads", json=job | fields, headers={"Idempotency-Key": name})


@contextmanager
def started(home: Path, *options: str, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run `manage.py up` on this folder until it answers, and end it afterwards; yield the process and its address."""
    port = free_port()
    log = home.parent / f"up-{port}.log"
    command = [sys.executable, ROOT / "manage.py", "up", "--port", str(port), *options]
    url = f"http://127.0.0.1:{port}"
    with running(command, log=log, env=environment(home, **variables)) as process:
        answering(url, process, log)
        yield process, url


@contextmanager
def up(home: Path, *options: str, **variables: str) -> Iterator[Server]:
    """`started`, with more environment variables, and a client that is signed in."""
    with (
        started(home, *options, **variables) as (process, url),
        signed_in(url, (home / "password").read_text().strip()) as http,
    ):
        yield Server(process, url, home, http)


def answering(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; fail with its log if it ends instead."""

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        return answers(f"{url}/healthz")

    wait_until(is_ready, url, READY_SECONDS)


@contextmanager
def signed_in(url: str, password: str, user: str = "admin") -> Iterator[httpx.Client]:
    """A client with a token of this user."""
    with httpx.Client(base_url=url, timeout=60) as http:
        answer = http.post("/api/v1/login", json={"username": user, "password": password, "name": "flow test"})
        assert answer.status_code in (200, 201), answer.text
        http.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        yield http


def rows(database: Path, statement: str) -> list[tuple[Any, ...]]:
    """What a query finds in a SQLite file that nobody may have open for writing."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as file:
        return file.execute(statement).fetchall()


def eventually(http: httpx.Client, path: str, seconds: float, **wanted: Any) -> dict[str, Any]:
    """GET until the answer has these values; fail with the last answer after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        answer = http.get(path).json()
        if all(answer.get(name) == value for name, value in wanted.items()):
            found: dict[str, Any] = answer
            return found
        assert time.monotonic() < deadline, f"{path} is not {wanted} after {seconds:g} s: {answer}"
        time.sleep(0.2)


def address_in(log: Path) -> str | None:
    """The address that `up` printed."""
    found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
    return found.group(0) if found else None
