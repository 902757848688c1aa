"""A shell for each document: its commands one after the other, beside a running Weft, in a folder of its own."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.documents.rules import Step
from tests.servers import ROOT, running, wait_until

SECONDS = 900.0  # for all commands of one document: only what hangs takes so long, however busy the machine is

# What the documents take for granted, and how the shell tells of each command.
PRELUDE = f"""
make() {{ command make --no-print-directory -C '{ROOT}' "$@"; }}
manage.py() {{ '{ROOT}/.venv/bin/python' '{ROOT}/manage.py' "$@"; }}
terminal() {{ '{ROOT}/.venv/bin/python' '{ROOT}/tests/documents/terminal.py' "$@"; }}
new_id() {{ sed -n 's/.*"id": *\\([0-9]*\\).*/\\1/p' "$STEPS"/*.out | tail -1; }}
provisioner() {{
    [ -s provisioner.yaml ] || command kubectl config view --raw >provisioner.yaml
    kubectl --kubeconfig provisioner.yaml config set-credentials provisioner >&2 \
        --token "$(command kubectl create token --namespace weft weft-provisioner)"
    kubectl --kubeconfig provisioner.yaml config set-context --current --user provisioner >&2
    echo "$PWD/provisioner.yaml"
}}
curl() {{ command curl --no-progress-meter --fail-with-body "$@"; }}
step() {{
    eval "$(cat "$STEPS/$1.sh")" >"$STEPS/$1.out" 2>&1 <"$STEPS/password"
    echo "$1 $?" >>"$STEPS/codes"
}}
"""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that was run. code None: it did not end in time, or the shell ended before its turn."""

    step: Step
    code: int | None
    said: str

    def __str__(self) -> str:
        code = "did not end" if self.code is None else f"exit {self.code}"
        return f"{self.step.command.where}: {self.step.command.text}\n  run as: {self.step.text}\n  {code}: {self.said}"


@dataclass(frozen=True, slots=True)
class Weft:
    """The running Weft that all documents speak of."""

    url: str
    home: Path
    env: dict[str, str]

    @property
    def password(self) -> str:
        """Of every demo user."""
        return (self.home / "password").read_text().strip()

    def token(self, user: str) -> str:
        """A token of one of them."""
        asked = {"username": user, "password": self.password, "name": "documents"}
        answer = httpx.post(f"{self.url}/api/v1/login", json=asked, timeout=60)
        answer.raise_for_status()
        return str(answer.json()["token"])

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """What a query finds in its database."""
        with closing(sqlite3.connect(f"file:{self.home / 'weft.sqlite3'}?mode=ro", uri=True, timeout=30)) as file:
            return file.execute(statement).fetchall()


@contextlib.contextmanager
def serving(text: str, ready: str, log: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a server of the documents, which says so when it is ready, and end it as Ctrl-C does."""
    with running(["/bin/sh", "-c", f"exec {_command(text)}"], log=log, env=env, stop=signal.SIGINT) as process:

        def is_ready() -> bool:
            assert process.poll() is None, f"{text} ended: {log.read_text()}"
            return bool(re.search(ready, log.read_text()))

        wait_until(is_ready, text, SECONDS)
        yield
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        # make ends by the signal itself, once its child has ended; it would complain of a child that failed.
        assert process.wait(60) in (0, -signal.SIGINT), f"{text} ended with {process.returncode}: {log.read_text()}"
        assert "***" not in log.read_text()


def _command(text: str) -> str:
    """The programs of PRELUDE without its functions, which `exec` does not take."""
    short = {"make": f"make -C '{ROOT}'", "manage.py": f"'{ROOT}/.venv/bin/python' '{ROOT}/manage.py'"}
    program, _, rest = text.partition(" ")
    return f"{short.get(program, program)} {rest}"


def run(steps: Sequence[Step], folder: Path, told: Path, env: dict[str, str], password: str) -> list[Done]:
    """Run the commands of one document in one shell, in this folder; all of them, whatever fails.

    told: an empty folder for what each of them says.
    """
    (told / "password").write_text(password + "\n")
    for number, step in enumerate(steps):
        (told / f"{number}.sh").write_text(step.text + "\n")
    script = PRELUDE + "".join(f"step {number}\n" for number in range(len(steps)))
    process = subprocess.Popen(
        ["bash", "-c", script], cwd=folder, env={**env, "STEPS": str(told)}, start_new_session=True
    )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):  # what has not ended, and what a command left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    codes = (told / "codes").read_text().split() if (told / "codes").exists() else []
    code = dict(zip(map(int, codes[::2]), map(int, codes[1::2]), strict=True))
    return [Done(step, code.get(number), _said(told / f"{number}.out")) for number, step in enumerate(steps)]


def _said(out: Path) -> str:
    return out.read_text()[-2000:].strip() if out.exists() else ""
