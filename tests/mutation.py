"""Mutation testing of the scheduler's ledger: `python -m tests.mutation` (part of `make nightly`).

Each mutant is one small change of one expression in a file below: another comparison, operator, constant, or a
condition turned round. The tests that call the changed function run until one fails; a mutant that none of them
notices survives, and one that runs far longer than they did before is noticed too. Collected once, a mutant is tried
in a fork with the code of one function replaced. Names, texts, annotations and errors' words are not changed.
Deterministic: the order of mutants follows from the source, and examples of Hypothesis from each test.
Prints each survivor and the score of each file; ends with 1 if one is under `LEAST` percent.
`python -m tests.mutation scheduler/gang.py` measures one file.
"""

import ast
import copy
import inspect
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
FILES = ("gpushare/packing.py", "scheduler/gang.py", "scheduler/quota.py", "scheduler/victims.py")
# Worlds as text: they take milliseconds, so all of them can look at each mutant.
TESTS = ("tests/gpushare", "tests/museum/test_decisions.py") + tuple(
    f"tests/scheduler/test_{name}.py"
    for name in ("consolidate", "elastic", "fairshare", "gangs", "placement", "plan", "preempt", "quota", "reasons",
                 "reclaim", "services")
)  # fmt: skip
LEAST = 85.0  # percent of mutants noticed, in each file (docs/promises.md, P23)
SLOWER, GRACE = 10.0, 5.0  # a mutant runs too long at so many times its tests' time, and so many seconds

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Div: ast.Mult,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


class Mutant(NamedTuple):
    """One change: where, what it does, and the module with it."""

    file: str
    line: int
    what: str
    function: str  # the outermost one that it is in, with its class
    tree: ast.Module


def mutants(file: str) -> Iterator[Mutant]:
    """All mutants of a file, in the order of its source."""
    tree = ast.parse((ROOT / file).read_text())
    for name, function in _functions(tree):
        for node in _expressions(function):
            for what, change in _changes(node):
                mutated = copy.deepcopy(tree, memo := {})
                twin = memo[id(node)]
                change(twin)
                yield Mutant(file, node.lineno, what, name, mutated)  # type: ignore[attr-defined]


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{inner.name}", inner) for inner in node.body if isinstance(inner, ast.FunctionDef)
            )


def _expressions(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body in the order of its source, without annotations and errors."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        yield node
        skipped = {id(child) for child in (getattr(node, "annotation", None), getattr(node, "returns", None)) if child}
        waiting += [child for child in reversed(list(ast.iter_child_nodes(node))) if id(child) not in skipped]


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:  # noqa: C901  (a table)
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                other = COMPARISONS[type(op)]
                yield f"{type(op).__name__} -> {other.__name__}", lambda n, at=at, o=other: n.ops.__setitem__(at, o())
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            changed = OPERATORS[type(op)]
            yield f"{type(op).__name__} -> {changed.__name__}", lambda n, o=changed: setattr(n, "op", o())
        case ast.BoolOp(op=op):
            turned = ast.Or if isinstance(op, ast.And) else ast.And
            yield f"{type(op).__name__} -> {turned.__name__}", lambda n, o=turned: setattr(n, "op", o())
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op):
            yield f"without {type(op).__name__}", lambda n: setattr(n, "op", ast.UAdd() if _is_minus(n) else _Same())
        case ast.Constant(value=bool() as value):
            yield f"{value} -> {not value}", lambda n, v=value: setattr(n, "value", not v)
        case ast.Constant(value=int() as value):
            yield f"{value} -> {value + 1}", lambda n, v=value: setattr(n, "value", v + 1)
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield f"{name} -> {CALLS[name]}", lambda n, o=CALLS[name]: setattr(n.func, "id", o)
        case ast.Call(func=ast.Attribute(attr=name)) if name in CALLS:
            yield f"{name} -> {CALLS[name]}", lambda n, o=CALLS[name]: setattr(n.func, "attr", o)
        case ast.If() | ast.IfExp() | ast.While():
            yield "condition turned round", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
        case ast.Continue():
            yield "continue -> break", lambda n: setattr(n, "__class__", ast.Break)
        case ast.Break():
            yield "break -> continue", lambda n: setattr(n, "__class__", ast.Continue)


def _is_minus(node: ast.UnaryOp) -> bool:
    return isinstance(node.op, ast.USub)


class _Same(ast.Not):
    """Marks a `not` that is to go; see `_compiled`."""


class _Drop(ast.NodeTransformer):
    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802  (ast's name)
        self.generic_visit(node)
        return node.operand if isinstance(node.op, _Same) else node


def _compiled(mutant: Mutant) -> CodeType:
    """The code of the mutant's function."""
    tree = ast.fix_missing_locations(_Drop().visit(mutant.tree))
    code = compile(tree, str(ROOT / mutant.file), "exec")
    for part in mutant.function.split("."):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part)
    return code


def live(mutant: Mutant) -> Any:
    """The function that the mutant changes, as it is imported."""
    found: Any = import_module(mutant.file.removesuffix(".py").replace("/", "."))
    for part in mutant.function.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", None) or found
    return inspect.unwrap(found)


class Runner:
    """A plugin of pytest: looks once at which test calls which function, then runs the mutants."""

    def __init__(self, files: list[str]) -> None:
        self.files = files
        self.took: dict[str, float] = {}
        self.callers: defaultdict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
        self.scores: dict[str, tuple[int, int]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once."""
        self._look(session)
        for file in self.files:
            noticed = count = 0
            for mutant in mutants(file):
                is_noticed = self._try(mutant)
                count, noticed = count + 1, noticed + is_noticed
                if not is_noticed:
                    _say(f"survives: {mutant.file}:{mutant.line} {mutant.function}: {mutant.what}")
            self.scores[file] = noticed, count
            _say(f"{file}: {noticed} of {count} mutants noticed, {100 * noticed / count:.1f} %")
        return True

    def _look(self, session: pytest.Session) -> None:
        names = {str(ROOT / file): file for file in self.files}
        for item in session.items:
            called: set[tuple[str, str]] = set()

            def note(frame: FrameType, event: str, arg: object, called: set[tuple[str, str]] = called) -> None:
                if event == "call" and frame.f_code.co_filename in names:
                    called.add((names[frame.f_code.co_filename], frame.f_code.co_qualname.split(".<locals>")[0]))

            started = time.monotonic()
            sys.setprofile(note)
            _run(item)
            sys.setprofile(None)
            self.took[item.nodeid] = time.monotonic() - started
            if session.testsfailed:
                raise pytest.UsageError(f"{item.nodeid} fails without a mutant; mend it first")
            for key in called:
                self.callers[key].append(item)
        for items in self.callers.values():
            items.sort(key=lambda item: self.took[item.nodeid])
        _say(f"{len(session.items)} tests, {sum(self.took.values()):.0f} s")
        if self._is_noticed(session.items, main, main.__code__):
            raise pytest.UsageError("a test fails when it runs again, without a mutant; no score would mean anything")

    def _try(self, mutant: Mutant) -> bool:
        items = self.callers[mutant.file, mutant.function]
        return self._is_noticed(items, live(mutant), _compiled(mutant))

    def _is_noticed(self, items: list[pytest.Item], function: Any, code: CodeType) -> bool:
        """Whether one of the tests fails, or runs too long, in a fork in which the function has this code."""
        limit = GRACE + SLOWER * sum(self.took[item.nodeid] for item in items)
        child = os.fork()
        if child == 0:
            signal.alarm(int(limit) + 1)  # ends the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            function.__code__ = code
            os._exit(0 if all(_run(item) for item in items) else 1)
        return os.waitpid(child, 0)[1] != 0


def _run(item: pytest.Item) -> bool:
    from _pytest.runner import runtestprotocol

    return all(report.passed for report in runtestprotocol(item, log=False, nextitem=None))


def _say(text: str) -> None:
    sys.__stdout__.write(f"{text}\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def main(files: list[str]) -> int:
    """Measure these files, or all."""
    os.chdir(ROOT)
    settings.register_profile("mutation", derandomize=True, database=None, max_examples=60, print_blob=False)
    settings.load_profile("mutation")
    runner = Runner(files or list(FILES))
    ended = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-o", "timeout=0", *TESTS], [runner])
    is_good = all(100 * noticed >= LEAST * count for noticed, count in runner.scores.values())
    return 0 if is_good and runner.scores and ended in (0, 5) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
