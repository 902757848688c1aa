"""Fixtures of the client's tests: a scripted server, and a shell without anyone's configuration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.client.scripted import Scripted
from tests.controlplane.api.conftest import People, people
from weft import cli

PIPELINE = """\
type: training
name: prepare
team: red
image: example/prepare:1
resources: {cpu: 1}
---
type: training
name: fit
team: red
image: example/fit:1
resources: {gpus: 1}
workers:
  count: 2
after: [prepare]
"""


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Weft = Callable[..., Ran]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: no configuration, no WEFT_ variables, plain output."""
    for name in ("WEFT_URL", "WEFT_TOKEN", "WEFT_TEAM", "WEFT_CONTEXT", "WEFT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def weft(shell: Path, capsys: pytest.CaptureFixture[str]) -> Weft:
    """Run the command line in this process."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = cli.run(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture
def crowd(url: str, shell: Path) -> People:
    """People in the database of the server at the test's `url`."""
    return people()


@pytest.fixture
def mia(crowd: People, url: str, monkeypatch: pytest.MonkeyPatch) -> People:
    """The shell of a member of team red."""
    monkeypatch.setenv("WEFT_URL", url)
    monkeypatch.setenv("WEFT_TOKEN", crowd.member.token)
    return crowd


@pytest.fixture
def signed_in(server: Scripted, monkeypatch: pytest.MonkeyPatch, shell: Path) -> Scripted:
    """A shell that is signed in to the scripted server by its environment."""
    monkeypatch.setenv("WEFT_URL", server.url)
    monkeypatch.setenv("WEFT_TOKEN", "weft_secret")
    server.on("GET", "/me", {"username": "mia", "teams": []})
    server.on("GET", "/cluster", {"now": "2026-01-01T00:10:00Z", "seconds": 600.0})
    return server
