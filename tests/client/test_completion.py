"""Completion in bash, zsh and fish: the scripts are theirs, and what they ask is answered."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import Weft

COMMAND = [sys.executable, "-c", "from weft.cli import main; main()"]
ASKED = {
    "bash": lambda words: {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)},
    "zsh": lambda words: {"_TYPER_COMPLETE_ARGS": words},
    "fish": lambda words: {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def asked(shell: str, words: str, home: Path) -> str:
    """What the shell would offer after these words."""
    env = {**os.environ, "_WEFT_COMPLETE": f"complete_{shell}", "XDG_CONFIG_HOME": str(home), **ASKED[shell](words)}
    done = subprocess.run(COMMAND, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ASKED)
def test_commands_and_their_options_are_completed(shell: str, tmp_path: Path) -> None:
    offered = asked(shell, "weft su", tmp_path)
    assert "submit" in offered
    assert "suspend" in offered
    assert "stop" not in offered
    assert "--idempotency-key" in asked(shell, "weft submit --idem", tmp_path)
    assert "priority-classes" in asked(shell, "weft get prio", tmp_path)
    assert "training" in asked(shell, "weft submit tr", tmp_path)


@pytest.mark.parametrize("shell", ASKED)
def test_stored_contexts_are_completed(shell: str, tmp_path: Path, weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    weft("config", "set", "staging", "--url", "https://staging.example")
    assert "staging" in asked(shell, "weft config use st", tmp_path)


@pytest.mark.parametrize("shell", ASKED)
def test_the_script_is_one_of_the_shell(shell: str, tmp_path: Path) -> None:
    env = {**os.environ, "_WEFT_COMPLETE": f"source_{shell}"}
    script = subprocess.run(COMMAND, env=env, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "_WEFT_COMPLETE=complete_" in script
    program = shutil.which(shell)
    if program is None:  # its syntax can only be checked by itself; what it asks is answered all the same
        return
    checked = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr
