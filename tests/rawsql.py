"""Where the product holds SQL text of its own, and which functions that ask for it a test run has been through.

REASONS are all modules that hold a statement or a part of one, each with its reason, which its docstring tells too.
DOORS are those of them that run one at a cursor. The list is closed: what else is needed goes to one of these, by its
subject.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SQL = re.compile(r"\s*\(?(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|ORDER BY|GROUP BY|LIMIT|ON CONFLICT|SET LOCAL) ")
ASIDE = ("migrations", "benchmarks", "testbed")  # history; and what is no part of the product
REASONS = {
    "cluster/store": "the simulated cluster's own file, which is no database of Django's",
    "models/bulk": "many rows in one statement, composed once: what loops and lists do in every round",
    "models/loading": "whole rows as objects, composed once: what every request does",
    "models/lookups": "the conditions of those two, composed once",
    "models/statements": "the database's clock, and Postgres's locks, settings and snapshots",
    "models/upserts": "an upsert under a condition",
    "queries/scheduling/moment": "SQLite has no other way to read one moment without the lock of writers",
    "services/audit/auditlog": "a row is inserted only if the one before it is still the newest",
    "services/audit/grants": "roles and their rights",
}
DOORS = REASONS.keys() - {"models/lookups", "models/upserts", "services/audit/auditlog"}


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the product by its name, parsed."""
    paths = [path for package in ("controlplane", "frontend") for path in sorted((ROOT / package).rglob("*.py"))]
    ours = [path for path in paths if not set(ASIDE) & set(path.parts)]
    names = [path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("controlplane/") for path in ours]
    return tuple((name, ast.parse(path.read_text())) for name, path in zip(names, ours, strict=True))


def runs(tree: ast.AST) -> bool:
    """Whether it runs a statement itself: at a cursor, by `raw` or `extra`, or by an expression of raw SQL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "RawSQL":
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("executemany", "executescript"):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_cursor = (node.func.attr == "cursor" and not node.args) or (node.func.attr == "raw" and node.args)
            of = node.func.value
            is_statement = (
                node.func.attr == "execute" and node.args and ast.unparse(of) not in ("statements", "super()")
            )
            if is_cursor or is_statement or (node.func.attr == "extra" and node.keywords):
                return True
    return False


def has_text(tree: ast.AST) -> bool:
    """Whether a text in it is a statement, or the end of one."""
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) and SQL.match(n.value) for n in ast.walk(tree))


MODELS = tuple(name.removeprefix("models/") for name in sorted(REASONS) if name.startswith("models/"))


# The functions that lead there, and whether a run of the tests has been through them


def functions() -> set[str]:
    """Each function that calls one of those modules or takes a cursor itself, as `services/accounts/tokens:owner`."""
    found = set()
    for name, tree in modules():
        if not name.startswith(("models/", "management/commands/benchmark_")):
            doors = _doors(tree)
            found |= {f"{name}:{one}" for one in _that_call(tree, doors, "")}
    return found


def _doors(tree: ast.Module) -> set[str]:
    """The names by which a module calls what runs SQL text: `bulk.insert`, or `insert` where it is imported."""
    names = {"connection.cursor"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "controlplane.models":
            names |= {f"{one.asname or one.name}." for one in node.names if one.name in MODELS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").removeprefix("controlplane.models.") in MODELS:
            names |= {one.asname or one.name for one in node.names if one.name.islower()}
    return names


def _that_call(node: ast.AST, doors: set[str], inside: str) -> Iterator[str]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef):
            yield from _that_call(one, doors, f"{inside}{one.name}.")
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            called = {ast.unparse(call.func) for call in ast.walk(one) if isinstance(call, ast.Call)}
            if any(name in doors or f"{name.partition('.')[0]}." in doors for name in called):
                yield f"{inside}{one.name}"


class Recorder:
    """Notes which functions of the product the statements of a run came from, whichever thread ran them."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._known: dict[str, str] = {}

    def begin(self, connection: Any, **_: Any) -> None:
        """Listen to a connection that was made."""
        if self.note not in connection.execute_wrappers:
            connection.execute_wrappers.append(self.note)

    def note(self, execute: Callable[..., Any], *statement: Any) -> Any:
        """Run a statement, and note who asked for it."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = self._module(frame.f_code.co_filename)
            if name:
                self.seen.add(f"{name}:{frame.f_code.co_qualname.partition('.<')[0]}")
            frame = frame.f_back
        return execute(*statement)

    def _module(self, path: str) -> str:
        """The module's name if it is one of the product's, else ""."""
        if path not in self._known:
            name = path.removeprefix(f"{ROOT}/").removesuffix(".py")
            is_ours = name.startswith(("controlplane/", "frontend/"))
            self._known[path] = name.removeprefix("controlplane/") if is_ours else ""
        return self._known[path]
