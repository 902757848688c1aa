"""Names that the code had before are gone from it: no module, class, function, argument or variable bears one."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.plainwords.terms import FOLDER, Term

ROOT = FOLDER.parent.parent
PACKAGES = ("gpushare", "scheduler", "autoscaler", "controlplane", "frontend", "weft")


@cache
def retired() -> tuple[Term, ...]:
    """Each name that is retired."""
    rows = [line.split("\t") for line in (FOLDER / "names.txt").read_text().splitlines() if not line.startswith("#")]
    return tuple(Term(re.compile(pattern), instead, example) for pattern, instead, example in rows)


def names_in(tree: ast.AST) -> Iterator[str]:
    """What a module names itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@cache
def names() -> dict[str, str]:
    """Every name of our code, and a file that has it."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:  # history
                place = str(path.relative_to(ROOT))
                found |= dict.fromkeys(
                    (*Path(place).with_suffix("").parts, *names_in(ast.parse(path.read_text()))), place
                )
    return found


@pytest.mark.parametrize("term", retired(), ids=lambda term: term.example)
def test_a_name_that_is_retired_is_found_and_is_nowhere(term: Term) -> None:
    assert term.pattern.fullmatch(term.example)
    assert {name: place for name, place in names().items() if term.pattern.fullmatch(name)} == {}


def test_a_planted_name_is_found() -> None:
    planted = set(names_in(ast.parse("class Sweep:\n    def foresee(self, worn):\n        mirror = worn")))
    assert planted == {"Sweep", "foresee", "self", "worn", "mirror"}
    assert sum(any(term.pattern.fullmatch(name) for term in retired()) for name in planted) == 4
