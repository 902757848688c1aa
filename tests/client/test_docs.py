"""What docs/cli.md shows is understood by the command line."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from controlplane.client import cli
from tests.client.conftest import Weft
from tests.client.scripted import Scripted

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
SNIPPETS = [yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml"]


def commands() -> list[str]:
    """Every `weft ...` line of the shell blocks and the CI snippets."""
    github, gitlab = SNIPPETS
    lines = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    lines += [step["run"] for step in github["jobs"]["train"]["steps"] if "run" in step]
    lines += gitlab["train"]["script"]
    return [line for line in lines if line.startswith("weft ")]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_documentation_is_no_wrong_usage(signed_in: Scripted, weft: Weft, command: str) -> None:
    plain = re.sub(r"\$\{\{[^}]*\}\}|\$\w+", "7", command)
    ran = weft(*shlex.split(plain, comments=True)[1:])
    assert ran.code == 1, ran.err  # the scripted server has no such thing, and there is no file
    assert ran.err.startswith("error: ")


def test_every_command_is_documented() -> None:
    table = TEXT.split("## Commands")[1].split("###")[0]
    names = {command.callback.__name__ for command in cli.app.registered_commands if command.callback}
    assert {name for name in names if not re.search(rf"`(\w+`, `)*{name}\b", table)} == set()


def test_the_python_example_compiles() -> None:
    [example] = [text for kind, text in BLOCKS if kind == "python"]
    compile(example, "docs/cli.md", "exec")
