"""Finding every command that a document shows: in its blocks, in its sentences, in the jobs of CI snippets."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.servers import ROOT

SHELLS = ("sh", "bash", "shell", "console")
# What a command in a sentence begins with. In a block of a shell every line is a command, whatever it begins with.
PROGRAMS = (
    r"(?:make|weft|manage\.py|python3?|pip|pytest|kubectl|helm|docker|curl|git|go|npm|openssl|bash|sh|sudo|apt-get|"
    r"export|psql|redis-cli|celery|uvicorn|scripts/\S+|\.ci/\S+|\.venv/bin/\S+)"
)
COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*{PROGRAMS}\s+\S")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
JOB_KEYS = ("run", "script", "before_script", "after_script")  # of GitHub Actions and GitLab CI


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and where it stands."""

    text: str
    file: str  # relative to the root of the tree
    line: int

    @property
    def where(self) -> str:
        """As an editor opens it."""
        return f"{self.file}:{self.line}"


def documents(root: Path = ROOT) -> list[str]:
    """README.md and all of docs/, as paths relative to the root."""
    return ["README.md", *sorted(f"docs/{path.name}" for path in (root / "docs").glob("*.md"))]


def commands(file: str, root: Path = ROOT) -> list[Command]:
    """Every command of a document, in the order in which they stand."""
    return read((root / file).read_text(), file)


def read(text: str, file: str) -> list[Command]:
    """Every command of this text."""
    found = [Command(command, file, _line(text, at)) for at, command in [*_in_blocks(text), *_in_sentences(text)]]
    return sorted(found, key=lambda one: one.line)


def _in_blocks(text: str) -> Iterator[tuple[int, str]]:
    for block in FENCE.finditer(text):
        language, indent, start = block["language"], len(block["indent"]), block.start("text")
        lines = [(start + found.start(), found[0][indent:]) for found in re.finditer(r"[^\n]*\n", block["text"])]
        if language == "console":
            lines = [(at, line[2:]) for at, line in lines if line.startswith(("$ ", "> "))]
        if language in SHELLS:
            yield from _whole(lines)
        elif language == "yaml":
            yield from _in_jobs(lines)
        else:
            yield from ((at, line.strip()) for at, line in lines if not language and COMMAND.match(line.strip()))


def blocks(text: str, language: str) -> list[str]:
    """What stands in the blocks of a language."""
    found = [block for block in FENCE.finditer(text) if block["language"] == language]
    return [re.sub(rf"^{block['indent']}", "", block["text"], flags=re.MULTILINE) for block in found]


def _whole(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Join the lines that are one command: those that end in a backslash, quotes and loops that go on."""
    began, text = 0, ""
    for at, line in lines:
        began, text = (began, text + line) if text else (at, line)
        if not text.strip() or text.lstrip().startswith("#"):
            text = ""
        elif not text.endswith("\\\n") and _is_complete(text):
            yield began, text.strip()
            text = ""
    if text:
        yield began, text.strip()  # running it tells what is wrong with it


def _is_complete(text: str) -> bool:
    return subprocess.run(["/bin/sh", "-n", "-c", text], capture_output=True, check=False).returncode == 0


def _in_jobs(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Find what the jobs of a CI snippet run; other YAML has none of their keys."""
    try:
        found = list(yaml.safe_load_all("".join(line for _, line in lines)))
    except yaml.YAMLError:  # a fragment; what is YAML in earnest is read by its own tests
        return
    for command in _scripts(found):
        first = command.splitlines()[0]
        yield next(at for at, line in lines if first in line), command


def _scripts(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for one in node:
            yield from _scripts(one)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in JOB_KEYS:
                yield from (line for line in (value if isinstance(value, list) else [value]) if isinstance(line, str))
            else:
                yield from _scripts(value)


def _in_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Find code spans that are commands; a span may go on in the next line, and \\| is a bar in a table."""
    prose = FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    for span in SPAN.finditer(prose):
        command = re.sub(r"\s+", " ", span[1]).replace("\\|", "|")
        if "\n\n" not in span[1] and COMMAND.match(command):
            yield span.start(1), command


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
