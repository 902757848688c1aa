"""The command line as a process of its own: Ctrl-C, pipes, and a person at a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.scripted import Answer, Scripted, page, problem, workload

HELLO = workload()
AT = f"/workloads/{HELLO['uid']}"
WEFT = [sys.executable, "-c", "from weft.cli import main; main()"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def env(server: Scripted, tmp_path: Path) -> dict[str, str]:
    server.on("GET", "/cluster", {"now": "2026-01-01T00:10:00Z", "seconds": 600.0})
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "XDG_CONFIG_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "WEFT_URL": server.url,
        "WEFT_TOKEN": "weft_secret",
    }


class Person:
    """A process on a terminal of its own, and what it has printed there."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*WEFT, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self.said = ""

    def sees(self, text: str, within: float = 30.0) -> None:
        """Wait until the text is on the screen."""
        deadline = time.monotonic() + within
        while text not in self.said:
            ready, _, _ = select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))
            piece = self._read() if ready else ""
            assert piece, f"{text!r} did not come; there is: {self.said!r}"
            self.said += piece

    def types(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def leaves_with(self) -> int:
        """Wait for the end and return the exit code."""
        while piece := self._read():
            self.said += piece
        return self.process.wait(30)

    def _read(self) -> str:
        try:
            return os.read(self.ours, 65536).decode(errors="replace")
        except OSError:  # how Linux says that the other end is closed
            return ""

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        os.close(self.ours)


@pytest.fixture
def person(env: dict[str, str]) -> Iterator["type[Person]"]:
    people: list[Person] = []

    def sit(*arguments: str, **more: str) -> Person:
        people.append(Person(*arguments, env={**env, **more}))
        return people[-1]

    yield sit  # type: ignore[misc]
    for one in people:
        one.close()


def test_ctrl_c_while_waiting_leaves_the_workload_running(server: Scripted, env: dict[str, str]) -> None:
    server.on("POST", "/workloads", Answer(HELLO, 201))
    server.on("GET", AT, HELLO)
    command = [*WEFT, "submit", "training", "--name", "hello", "--team", "nlp", "--wait"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.endswith("nlp/hello is Queued\n")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Stopped waiting; nlp/hello goes on. Watch with `weft wait nlp/hello`, end with `weft stop`." in err
    assert "Traceback" not in err
    assert not server.sent("POST", f"{AT}/stop")


def test_who_signs_in_in_two_steps_is_asked_for_the_code(
    server: Scripted, person: type[Person], tmp_path: Path
) -> None:
    asked = problem(401, "CodeNeeded", ("code", "Give the code of your authenticator app."))
    server.on("POST", "/login", asked, Answer({"id": 7, "token": "weft_new"}, 201))
    mel = {"username": "mel", "is_platform_admin": False, "teams": [{"team": "nlp", "role": "member"}]}
    server.on("GET", "/me", mel)
    one = person("login", server.url, "--username", "mel", WEFT_TOKEN="")
    one.sees("Password of mel: ")
    one.types("secret\n")
    one.sees("Code of the authenticator app: ")
    one.types("123456\n")
    one.sees("as mel (member of nlp).")
    assert one.leaves_with() == 0
    assert "secret" not in one.said  # a password is not echoed
    first, second = (request.body for request in server.sent("POST", "/login"))
    assert (first["password"], "code" in first) == ("secret", False)
    assert (second["password"], second["code"]) == ("secret", "123456")
    assert "weft_new" in (tmp_path / "weft" / "config.json").read_text()


def test_a_reader_that_goes_away_is_no_crash(server: Scripted, env: dict[str, str]) -> None:
    server.on("GET", "/workloads", page(*[workload(f"w{number}") for number in range(200)]))
    process = subprocess.Popen([*WEFT, "get", "-o", "json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(30) != 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_person_is_asked_before_a_workload_ends(server: Scripted, person: type[Person]) -> None:
    running = workload(phase="Running", workers={"count": 4, "running": 4})
    server.on("GET", "/workloads", page(running))
    server.on("GET", AT, running)
    server.on("POST", f"{AT}/stop", workload(phase="Stopping"))
    careful = person("stop", "hello")
    careful.sees("nlp/hello (Running, 4 workers) is stopped permanently; work since its last checkpoint is lost.")
    careful.sees("Stop nlp/hello? [y/N] ")
    careful.types("\n")
    assert careful.leaves_with() == 1
    assert "Nothing was stopped." in careful.said
    assert not server.sent("POST", f"{AT}/stop")
    sure = person("stop", "hello")
    sure.sees("[y/N] ")
    sure.types("y\n")
    assert sure.leaves_with() == 0
    assert server.sent("POST", f"{AT}/stop")


def test_with_yes_nobody_is_asked(server: Scripted, person: type[Person]) -> None:
    server.on("GET", "/workloads", page(HELLO))
    server.on("GET", AT, HELLO)
    server.on("POST", f"{AT}/stop", workload(phase="Stopping"))
    assert person("stop", "hello", "-y").leaves_with() == 0


def test_a_password_is_asked_for_and_not_shown(server: Scripted, person: type[Person]) -> None:
    server.on("POST", "/login", Answer({"token": "weft_new", "id": 1, "prefix": "weft_new"}, 201))
    server.on("GET", "/me", {"username": "mel", "teams": []})
    mel = person("login", server.url, "--token", "", "-u", "mel")
    mel.sees("Password of mel: ")
    mel.types("open sesame\n")
    assert mel.leaves_with() == 0
    assert "sesame" not in mel.said
    assert server.sent("POST", "/login")[0].body["password"] == "open sesame"


def test_colour_is_for_terminals_that_want_it(server: Scripted, person: type[Person], env: dict[str, str]) -> None:
    server.on("GET", "/workloads", page(workload(phase="Running")))
    on_terminal, without = person("get"), person("get", NO_COLOR="1")
    assert (on_terminal.leaves_with(), without.leaves_with()) == (0, 0)
    assert "\x1b[32mRunning\x1b[0m" in on_terminal.said
    assert "\x1b" not in without.said
    piped = subprocess.run([*WEFT, "get"], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert "\x1b" not in piped.stdout


def test_what_others_wrote_cannot_steer_the_terminal(server: Scripted, person: type[Person]) -> None:
    line = {"at": "2026-01-01T00:00:01Z", "seconds": 1.0, "rank": 0, "text": "a\x1b]0;owned\x07b\tc"}
    server.on("GET", "/workloads", page(HELLO))
    server.on("GET", f"{AT}/logs", {"lines": [line], "attempt": 1, "next_since": 1.0})
    reader = person("logs", "hello", NO_COLOR="1")
    assert reader.leaves_with() == 0
    assert "\x1b]" not in reader.said
    assert "a]0;ownedb\tc" in reader.said
