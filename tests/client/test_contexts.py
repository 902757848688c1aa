"""`weft config`: servers and sign-ins by name, in a file that only its owner reads."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Weft
from tests.client.scripted import Scripted


def stored(shell: Path) -> dict[str, Any]:
    file = shell / "config" / "weft" / "config.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_contexts_are_set_used_shown_and_deleted(weft: Weft, shell: Path) -> None:
    assert weft("config", "get").err == "No server is known. Sign in with `weft login URL`.\n"
    first = weft(
        "config", "set", "prod", "--url", "https://weft.example/", "--token", "weft_0123456789", "--team", "nlp"
    )
    assert first.out == "prod is https://weft.example with a token.\n"
    weft("config", "set", "staging", "--url", "https://staging.example")
    assert stored(shell)["current"] == "prod"  # the first one
    assert weft("config", "use", "staging").out == "staging is now the current context: https://staging.example.\n"
    lines = weft("config", "get").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["prod", "*"]
    assert weft("config", "delete", "staging").out == "staging is deleted. prod is now the current context.\n"
    assert list(stored(shell)["contexts"]) == ["prod"]


def test_a_shown_context_keeps_its_token_to_itself(weft: Weft, shell: Path) -> None:
    weft("config", "set", "prod", "--url", "https://weft.example", "--token", "weft_0123456789abcdef")
    for form in ("table", "json", "yaml"):
        said = weft("config", "get", "-o", form).out
        assert "weft_01234..." in said
        assert "abcdef" not in said
    assert json.loads(weft("config", "get", "prod", "-o", "json").out)["is_current"] is True


def test_a_token_comes_from_stdin_and_never_goes_to_another_server(
    weft: Weft, shell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shell / "token").write_text("weft_secret\n")
    with (shell / "token").open() as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert weft("config", "set", "prod", "--url", "https://weft.example", "--token", "-").code == 0
    assert stored(shell)["contexts"]["prod"]["token"] == "weft_secret"
    assert weft("config", "set", "prod", "--team", "nlp").code == 0
    assert stored(shell)["contexts"]["prod"]["token"] == "weft_secret"
    said = weft("config", "set", "prod", "--url", "https://other.example").out
    assert said == "prod is https://other.example, without a token: weft login https://other.example.\n"
    assert stored(shell)["contexts"]["prod"]["token"] == ""


@pytest.mark.parametrize("verb", ["use", "delete", "get"])
def test_an_unknown_context_is_told_with_those_there_are(weft: Weft, verb: str) -> None:
    weft("config", "set", "prod", "--url", "https://weft.example")
    ran = weft("config", verb, "prd")
    assert (ran.code, "There is no context 'prd' (known: prod)" in ran.err) == (1, True)


def test_a_new_context_needs_a_server_that_is_one(weft: Weft) -> None:
    assert "Give its server" in weft("config", "set", "prod").err
    assert "is not an address" in weft("config", "set", "prod", "--url", "weft.example").err
    assert weft("config").code == 2


def test_a_command_may_name_its_context(server: Scripted, weft: Weft) -> None:
    server.on("GET", "/me", {"username": "mel", "teams": []})
    weft("config", "set", "other", "--url", "http://127.0.0.1:1")
    weft("config", "set", "here", "--url", server.url, "--token", "weft_x")
    assert weft("whoami", "--context", "here", "-o", "name").out == "mel\n"
    assert weft("whoami", "-o", "name").code == 1
