"""Where the product holds SQL text of its own, and which of those functions a test run has been through.

DOORS are the only modules that run a statement at a cursor. TEXTS are those that hold a statement or the end of one;
they give it to models/bulk.py, models/loading.py or models/statements.py. A new one is added here with a reason in its
docstring, or does without.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SQL = re.compile(r"\s*\(?(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|ORDER BY|GROUP BY|LIMIT|ON CONFLICT|SET LOCAL) ")
ASIDE = ("migrations", "benchmarks", "testbed")  # history; and what is no part of the product
DOORS = {
    "cluster/store",  # the simulated cluster's own file
    "models/bulk",
    "models/loading",
    "models/statements",
    "queries/scheduling/moment",
    "services/audit/grants",
}
TEXTS = DOORS | {
    "queries/audit/eventlog",
    "queries/audit/feed",
    "queries/audit/naming",
    "queries/notifications/event_types",
    "queries/reports/health",
    "queries/reports/sla",
    "queries/scheduling/atrest",
    "queries/scheduling/demand",
    "queries/scheduling/forecasts",
    "queries/scheduling/learning",
    "queries/scheduling/scaling",
    "queries/scheduling/snapshot",
    "queries/workloads/workloadrows",
    "queries/workloads/workloads",
    "services/accounts/logins",
    "services/accounts/tokens",
    "services/audit/auditlog",
    "services/audit/auditpruning",
    "services/audit/audits",
    "services/audit/retention",
    "services/audit/strangerrows",
    "services/scheduling/changes",
    "services/scheduling/clock",
    "services/scheduling/clusters",
    "services/scheduling/decisions",
    "services/scheduling/forecasts",
    "services/scheduling/heartbeats",
    "services/scheduling/leases",
    "services/scheduling/observations",
    "services/scheduling/policy",
    "services/scheduling/timeouts",
    "services/tenancy/usage",
    "services/workloads/actions",
    "services/workloads/checkpoints",
    "services/workloads/dependencies",
    "services/workloads/feasibility",
    "services/workloads/idempotency",
    "services/workloads/idle",
    "services/workloads/resizing",
    "services/workloads/resubmission",
    "services/workloads/rows",
    "services/workloads/samples",
    "services/workloads/submission",
    "services/workloads/week",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("controlplane", "frontend"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not set(ASIDE) & set(path.parts):
                name = path.relative_to(ROOT).with_suffix("").as_posix()
                yield name.removeprefix("controlplane/"), ast.parse(path.read_text())


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


# The functions that run such text, and whether a run of the tests has been through them


def functions() -> set[str]:
    """Each function of TEXTS that gives a text to a door or runs it itself, as `services/accounts/tokens:owner`."""
    return {f"{name}:{one}" for name, tree in modules() if name in TEXTS for one in _that_run(tree, "")}


def _that_run(node: ast.AST, inside: str) -> Iterator[str]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef):
            yield from _that_run(one, f"{inside}{one.name}.")
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_is_door, ast.walk(one))):
            yield f"{inside}{one.name}"


def _is_door(node: ast.AST) -> bool:
    """Whether it is a call that leads to a cursor: `bulk.select(...)`, `load(...)`, `connection.cursor()`."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called.startswith(("bulk.", "loading.", "statements.")) or called in ("load", "connection.cursor")


class Recorder:
    """Notes which functions of TEXTS the statements of a run came from, whichever thread and connection ran them."""

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
        """The module's name if it is one of TEXTS, else ""."""
        if path not in self._known:
            name = path.removeprefix(f"{ROOT}/").removesuffix(".py").removeprefix("controlplane/")
            self._known[path] = name if name in TEXTS else ""
        return self._known[path]
