"""`first-job`: from `make up` on an installed checkout with an empty database to the first own job running.

A real browser signs in and submits, with as few clicks as a person needs; then the same from a bare shell with a
token: one curl, and one `weft submit`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from django.conf import settings

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.testbed import chromium
from controlplane.testbed.processes import free_port, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SECONDS, CLICKS = 60.0, 6
GIVE_UP = 180.0
PERSON = "mel"


class Hand:
    """A person's hand: counts its clicks."""

    def __init__(self) -> None:
        self.clicks = 0

    def click(self, what: "Locator") -> None:
        """Click, and count it."""
        what.click()
        self.clicks += 1


def run(options: Options, progress: Progress) -> Result:
    """Start, submit, wait until it runs; then the shell. Raises BenchmarkError or MissingError."""
    with tempfile.TemporaryDirectory(prefix="weft-first-") as name, chromium.browser() as browser:
        home, port = Path(name), free_port()
        began = time.monotonic()
        with _made_up(home, port) as log:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: f"Weft runs at   {url}" in log.read_text(), "make up", GIVE_UP)
            ready = time.monotonic() - began
            progress(0.3, f"ready after {ready:.1f} s")
            password = re.search(r"password of all: (\S+)", log.read_text())
            if password is None:
                raise BenchmarkError(f"make up printed no password:\n{log.read_text()}")
            page, hand = browser.new_context().new_page(), Hand()
            team = _submit(page, hand, url, password[1])
            page.locator("#head .state", has_text="Running").wait_for(timeout=GIVE_UP * 1000)
            seconds = time.monotonic() - began
            progress(0.7, f"running after {seconds:.1f} s and {hand.clicks} clicks")
            shell = _from_a_shell(url, home, team)
    return Result(
        (
            Figure("first-job.seconds", round(seconds, 1), "s", SECONDS),
            Figure("first-job.clicks", hand.clicks, "", CLICKS),
        ),
        (f"`make up` was ready after {ready:.1f} s", *shell),
    )


@contextmanager
def _made_up(home: Path, port: int) -> Iterator[Path]:
    """`make up` in a folder of its own; what it prints."""
    log = home / "make.log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603
            ["make", "--no-print-directory", "up", f"PORT={port}"],  # noqa: S607
            cwd=settings.BASE_DIR, env=processes.environment(home), stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _submit(page: "Page", hand: Hand, url: str, password: str) -> str:
    """Sign in and submit a job; the team it is of. Fields are reached by Tab, as in any form."""
    page.goto(url)
    page.keyboard.type(PERSON)  # the field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    hand.click(page.get_by_role("button", name="Sign in"))
    hand.click(page.locator(".top").get_by_role("link", name="Submit"))
    hand.click(page.get_by_label("Name", exact=True))
    page.keyboard.type("mine")
    hand.click(page.get_by_label("Image"))
    page.keyboard.type("example/train:1")
    team = page.get_by_label("Team", exact=True).input_value()
    hand.click(page.locator("#job").get_by_role("button", name="Submit"))
    return team


def _from_a_shell(url: str, home: Path, team: str) -> tuple[str, ...]:
    """One curl and one `weft submit` with a token and nothing else; what they answered."""
    form = {"username": PERSON, "password": (home / "password").read_text().strip(), "name": "first job"}
    answer = httpx.post(f"{url}/api/v1/login", json=form, timeout=30, trust_env=False)
    token = answer.raise_for_status().json()["token"]
    bare = {"PATH": os.environ["PATH"], "HOME": str(home), "WEFT_TOKEN": token, "WEFT_URL": url}
    job = {"type": "training", "name": "by-curl", "team": team, "image": "example/train:1", "resources": {"gpus": 1}}
    told = []
    if shutil.which("curl"):
        curl = ["curl", "-sS", "--fail", f"{url}/api/v1/workloads", "-H", f"Authorization: Bearer {token}",
                "-H", "Content-Type: application/json", "-d", json.dumps(job)]  # fmt: skip
        told.append(f"one curl: {json.loads(_ran(curl, bare))['phase']}")
    weft = str(Path(sys.executable).with_name("weft"))
    arguments = ["submit", "training", "--name", "by-weft", "--team", team, "--image", "example/train:1", "--gpus", "1"]
    told.append(f"one weft submit: {_ran([weft, *arguments], bare).strip().splitlines()[-1]}")
    return tuple(told)


def _ran(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise BenchmarkError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
