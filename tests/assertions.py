"""Which tests can fail: those that assert, raise or wait for something, themselves or through a helper of tests/."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Calls that fail by themselves: of pytest, pytest-django and numpy, and waits that raise after their deadline.
FAILING = {
    *("raises", "warns", "fail", "django_assert_num_queries", "django_assert_max_num_queries", "assert_allclose"),
    *("wait_until", "wait_for", "until", "eventually", "run_state_machine_as_test"),
}


@functools.cache
def modules() -> dict[Path, ast.Module]:
    """The modules of tests/, parsed."""
    return {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}


def every_test() -> Iterator[tuple[Path, Function]]:
    """All test functions with their files."""
    for path, module in modules().items():
        if path.name.startswith("test_"):
            for node in module.body:
                if isinstance(node, Function) and node.name.startswith("test"):
                    yield path, node


def can_fail(path: Path, function: ast.AST, seen: frozenset[tuple[Path, str]] = frozenset()) -> bool:
    """Whether a function asserts, raises or waits, itself or through helpers of its module or of another of tests/."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and seen):
            return True  # a test's own `raise` is what a fake in it does; a helper's is its verdict
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in FAILING:
            return True
        if isinstance(node.func, ast.Name) and (found := _helper(path, name)) is not None:
            where, helper = found
            if (where, name) not in seen and can_fail(where, helper, seen | {(where, name)}):
                return True
    return False


def _helper(path: Path, name: str) -> tuple[Path, ast.AST] | None:
    """The function of this name that a module of tests/ defines or imports from another one."""
    names = _names(path)
    where, what = names.get(name, (None, ""))
    if where is None:
        return None
    return next(((where, n) for n in modules()[where].body if isinstance(n, Function) and n.name == what), None)


@functools.cache
def _names(path: Path) -> dict[str, tuple[Path, str]]:
    """What a module calls its own functions and those that it imports from tests/: their file and name there."""
    found: dict[str, tuple[Path, str]] = {}
    for node in modules()[path].body:
        if isinstance(node, Function):
            found[node.name] = (path, node.name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tests":
            target = ROOT / (node.module.replace(".", "/") + ".py")
            if target in modules():
                found |= {one.asname or one.name: (target, one.name) for one in node.names}
    return found


def hollow(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Assertions that hold whatever the code does, with their lines."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assert) and (why := _always(node.test)):
            yield node.lineno, why
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises":
            wide = [
                arg.id for arg in node.args if isinstance(arg, ast.Name) and arg.id in ("Exception", "BaseException")
            ]
            if wide and not node.keywords:
                yield node.lineno, "any exception will do, the test's own mistakes included"


def _always(test: ast.expr) -> str:
    """Why a condition is always true, or nothing."""
    match test:
        case ast.Constant(value=value) if value:
            return "a constant"
        case ast.Tuple(elts=[_, *_]):
            return "a tuple that is not empty is true"
        case ast.JoinedStr() | ast.Lambda() | ast.GeneratorExp():
            return "it is never false"
        case ast.BoolOp(op=ast.Or(), values=values) if any(_always(value) for value in values):
            return "one side of the `or` is always true"
        case ast.BoolOp(op=ast.And(), values=values) if all(_always(value) for value in values):
            return "all sides are always true"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _always_compares(left, op, right)
    return ""


def _always_compares(left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
    is_count = isinstance(left, ast.Call) and (
        getattr(left.func, "id", "") == "len" or getattr(left.func, "attr", "") in ("count", "total", "bit_length")
    )
    match op, right:
        case (ast.GtE(), ast.Constant(value=0)) | (ast.Gt(), ast.UnaryOp()) if is_count:
            return "a count is never below 0"
        case (ast.Eq() | ast.LtE() | ast.GtE() | ast.Is(), _) if ast.dump(left) == ast.dump(right):
            has_call = any(isinstance(node, ast.Call) for node in ast.walk(left))
            return "" if has_call else "both sides are the same name"
        case (ast.In(), ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts)):
            values = {element.value for element in elts if isinstance(element, ast.Constant)}
            if sum(isinstance(value, bool) for value in values) == 2:
                return "it is True or False"
            if isinstance(left, ast.Attribute) and left.attr == "vendor" and values >= {"sqlite", "postgresql"}:
                return "there are no other databases"
    return ""
