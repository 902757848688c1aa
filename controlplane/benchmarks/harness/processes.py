"""Running Weft as a user would, in a process and a data folder of its own."""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings

from controlplane.benchmarks.harness.figure import BenchmarkError

READY_SECONDS = 120.0
POLL_SECONDS = 0.02


def environment(home: Path) -> dict[str, str]:
    """The environment of an embedded Weft in this folder."""
    ours = (
        "WEFT_HOME",
        "DATABASE_URL",
        "DATABASE_URL_FILE",
        "REDIS_URL",
        "REDIS_URL_FILE",
        "SECRET_KEY",
        "SECRET_KEY_FILE",
        "CLUSTER",
    )
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "WEFT_HOME": str(home), "WEFT_DATA": str(settings.WEFT_DATA), "PYTHONUNBUFFERED": "1"}


def production(home: Path, **variables: str) -> dict[str, str]:
    """The environment of a process of ours as in production, with its files in this folder."""
    ours = {"WEFT_TLS": "false", "SECRET_KEY": secrets.token_hex(32), "WEFT_ALIVE": str(home)}
    return environment(home) | ours | variables


def run(env: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """Run a `manage.py` command that prints one JSON object. Raises BenchmarkError."""
    done = subprocess.run(manage(*arguments), env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(done.stderr.strip() or f"manage.py {' '.join(arguments)} ended with {done.returncode}.")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_quietly(env: Mapping[str, str], *arguments: str) -> None:
    """Run a `manage.py` command whose output does not matter. Raises BenchmarkError."""
    done = subprocess.run(manage(*arguments), env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(done.stderr.strip() or f"manage.py {' '.join(arguments)} ended with {done.returncode}.")


def core_seconds(pid: int) -> float:
    """Processor time that a process has used so far, all its threads (proc_pid_stat(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Memory of a process that is in use now (proc_pid_statm(5), resident)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def manage(*arguments: str) -> list[str]:
    """The command line of a `manage.py` command."""
    return [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]


def lines(home: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """Run a `manage.py` command that prints JSON objects; yield them as they come. Raises BenchmarkError."""
    with (
        tempfile.TemporaryFile("w+") as errors,  # a pipe that is not read would block a process that prints much
        subprocess.Popen(
            manage(*arguments), env=dict(env or environment(home)), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101  for the type checker
        for line in process.stdout:
            yield json.loads(line)
        code = process.wait()
        errors.seek(0)
        said = errors.read().strip()
    if code != 0:
        raise BenchmarkError(said or f"manage.py {' '.join(arguments)} ended with {code}.")


class Weft:
    """A running `manage.py up`."""

    def __init__(self, home: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.home = home
        self.address = f"http://127.0.0.1:{port}"
        self.process = process
        self.began = time.monotonic()

    def ready(self) -> float:
        """Seconds from the start of the command to the first page."""
        while time.monotonic() - self.began < READY_SECONDS:
            if self.process.poll() is not None:
                raise BenchmarkError((self.home / "log").read_text().strip())
            try:
                if httpx.get(f"{self.address}/", follow_redirects=True, timeout=5).status_code == 200:
                    return time.monotonic() - self.began
            except httpx.TransportError:
                pass
            time.sleep(POLL_SECONDS)
        raise BenchmarkError(f"Weft was not ready after {READY_SECONDS:g} s. Its log: {self.home / 'log'}")

    def sign_in(self, user: str = "admin") -> httpx.Client:
        """A browser's session of this user."""
        client = httpx.Client(base_url=self.address, follow_redirects=True, timeout=30)
        page = client.get("/login/")
        token = client.cookies.get("csrftoken", "")
        form = {"username": user, "password": (self.home / "password").read_text(), "csrfmiddlewaretoken": token}
        client.post(str(page.url), data=form, headers={"Referer": self.address})
        if "sessionid" not in client.cookies:
            raise BenchmarkError(f"{user} could not sign in at {page.url}.")
        return client

    def stop(self) -> float:
        """End it as Ctrl-C does; seconds until it has ended."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        return time.monotonic() - began


@contextmanager
def weft(port: int, *arguments: str, home: Path | None = None) -> Iterator[Weft]:
    """Run `manage.py up` for the time of a `with` block, in a fresh folder unless told otherwise."""
    with tempfile.TemporaryDirectory(prefix="weft-benchmark-") as fresh:
        folder = home or Path(fresh)
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                manage("up", "--port", str(port), *arguments), env=environment(folder), stdout=log, stderr=log
            )
        try:
            yield Weft(folder, port, process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
