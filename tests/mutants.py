"""Mutants of a source file: each is one small change of one expression of one function.

Another comparison, operator or constant, or a condition turned round. Names, texts, annotations and the words of
errors are not changed. The order of a file's mutants follows from its source.
"""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent

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
    """One change: where, and what it does. The code with it is made by `compiled`, as only a few are tried."""

    file: str
    line: int
    statement: int  # the line on which the statement around it begins: a test that runs this line runs the mutant
    what: str
    function: str  # the outermost one that it is in, with its class
    nth: int  # its place among the mutants of its file


def mutants(file: str) -> Iterator[Mutant]:
    """All mutants of a file, in the order of its source."""
    for nth, (name, statement, node, what, _) in enumerate(_places(ast.parse((ROOT / file).read_text()))):
        yield Mutant(file, node.lineno, statement, what, name, nth)  # type: ignore[attr-defined]


def _places(tree: ast.Module) -> Iterator[tuple[str, int, ast.AST, str, Any]]:
    """(function, line of the statement, node, what, what changes the node)."""
    for name, function in _functions(tree):
        for statement, node in _expressions(function):
            for what, change in _changes(node):
                yield name, statement, node, what, change


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{inner.name}", inner) for inner in node.body if isinstance(inner, ast.FunctionDef)
            )


def _expressions(function: ast.FunctionDef) -> Iterator[tuple[int, ast.AST]]:
    """(line of its statement, node), in the order of the source; without annotations and errors."""
    waiting: list[tuple[int, ast.AST]] = [(one.lineno, one) for one in reversed(function.body)]
    while waiting:
        line, node = waiting.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        line = node.lineno if isinstance(node, ast.stmt) else line
        yield line, node
        skipped = {id(child) for child in (getattr(node, "annotation", None), getattr(node, "returns", None)) if child}
        waiting += [(line, one) for one in reversed(list(ast.iter_child_nodes(node))) if id(one) not in skipped]


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
    """Marks a `not` that is to go; see `compiled`."""


class _Drop(ast.NodeTransformer):
    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802  (ast's name)
        self.generic_visit(node)
        return node.operand if isinstance(node.op, _Same) else node


def compiled(mutant: Mutant) -> CodeType:
    """The code of the mutant's function."""
    tree = ast.parse((ROOT / mutant.file).read_text())
    _, _, node, _, change = next(islice(_places(tree), mutant.nth, None))
    change(node)
    tree = ast.fix_missing_locations(_Drop().visit(tree))
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
