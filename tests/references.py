"""What the repository's documents name: tests, files, links and headings."""

import ast
import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = {
    ".xz",
    *(".webp", ".png", ".svg", ".ico", ".woff2"),
    *(".json", ".jsonl", ".csv", ".gz", ".zst", ".npz", ".sqlite3"),
}
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")


@functools.cache
def tracked() -> tuple[Path, ...]:
    """The files that we wrote, those included that git does not know yet; neither vendored files nor data."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(
        ROOT / name
        for name in listed.split("\0")
        if name and (ROOT / name).is_file() and "/vendor/" not in name and Path(name).suffix not in DATA
    )


def prose(text: str) -> str:
    """A document without its code blocks, in which brackets and `#` mean something else."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """The targets of a document's links and pictures, those to other sites included."""
    return _LINK.findall(_CODE.sub("", prose(text)))


@functools.cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub makes of a document's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", prose(path.read_text()), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        base = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (name := f"{base}-{number}" if number else base) in found:
            number += 1
        found.add(name)
    return frozenset(found)


@functools.cache
def functions(path: Path) -> frozenset[str]:
    """The names of all functions and methods of a module; none if there is no such file."""
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def missing_tests(text: str) -> list[str]:
    """The tests that a text names and that are not there."""
    return [f"{file}::{name}" for file, name in TEST.findall(text) if name not in functions(ROOT / file)]
