"""What the source says of credentials: which functions make one, and which addresses lead to such a function."""

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.security import authorization

ROOT = Path(__file__).parents[2]
# Calls that make a secret, set one, or accept one as somebody's sign-in.
MAKERS = frozenset(
    {
        "secrets.token_urlsafe", "secrets.token_hex", "secrets.token_bytes", "secrets.choice", "os.urandom",
        "django.core.signing.dumps", "django.core.management.utils.get_random_secret_key",
        "django.contrib.auth.authenticate", "django.contrib.auth.login", "django.contrib.auth.hashers.make_password",
        "allauth.account.internal.flows.login.perform_password_login",
    }
)  # fmt: skip
ENDINGS = (".set_password", ".generate_codes", "Token.objects.create", "Session.objects.create", "SocialToken")
APART = ("controlplane/benchmarks/", "controlplane/testbed/")  # what measures and tests the product


@cache
def modules() -> dict[str, "Module"]:
    """Every module of the product, by its dotted name."""
    found = {}
    for folder in ("controlplane", "frontend"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.startswith(APART):
                dotted = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                found[dotted] = Module(path.read_text(), dotted)
    return found


class Module:
    """The functions of a module (methods by `Class.name`), each with what it calls by dotted names."""

    def __init__(self, source: str, name: str) -> None:
        self.name = name
        tree = ast.parse(source)
        self.known = dict(_imports(tree))
        self.calls: dict[str, set[str]] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.known[node.name] = f"{self.name}.{node.name}"
        for node in tree.body:
            self._read(node, "")

    def _read(self, node: ast.AST, inside: str) -> None:
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                self._read(one, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            called = {_dotted(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
            self.calls[inside + node.name] = {self._whole(name, inside) for name in called if name}

    def _whole(self, name: str, inside: str) -> str:
        first, dot, rest = name.partition(".")
        if first == "self":
            return f"{self.name}.{inside}{rest}"
        return self.known.get(first, first) + dot + rest


def makers() -> set[str]:
    """The functions of the product in which a secret is made or taken for a sign-in."""
    return {
        f"{module.name}.{function}"
        for module in modules().values()
        for function, called in module.calls.items()
        if any(name in MAKERS or name.endswith(ENDINGS) for name in called)
    }


def services_that_make() -> set[str]:
    """The services that make one by calling another function that does."""
    found = makers()
    while True:
        more = {
            f"{name}.{function}"
            for name, module in modules().items()
            if name.startswith("controlplane.services.")
            for function, called in module.calls.items()
            if called & found
        }
        if more <= found:
            return {one for one in found if one.startswith("controlplane.services.")}
        found |= more


def leading_to(wanted: frozenset[str]) -> set[str]:
    """The addresses whose view calls one of these functions, by itself or by another function of its module."""
    return {
        route.address for route in authorization.routes() if any(_reaches(one, wanted) for one in _entries(route.view))
    }


def _entries(view: Any) -> Iterator[str]:
    """The functions that answer an address."""
    made = getattr(view, "cls", None) or getattr(view, "view_class", None)
    if made is not None:
        for name in vars(made):
            yield f"{made.__module__}.{made.__qualname__}.{name}"
        return
    model_admin = getattr(view, "model_admin", None)  # the console's views
    if (
        model_admin is not None
        and getattr(model_admin, "form", None) is not None
        and _name(view) in ("add_view", "change_view")
    ):
        yield f"{model_admin.form.__module__}.{model_admin.form.__qualname__}.carry_out"
        return
    function: Callable[..., Any] = inspect.unwrap(view)
    yield f"{function.__module__}.{function.__qualname__}"
    if function.__module__ == "controlplane.signin.addresses" and function.__doc__:
        yield function.__doc__


def _name(view: Any) -> str:
    return str(getattr(view, "__name__", ""))


def _reaches(start: str, wanted: frozenset[str]) -> bool:
    seen, stack = set(), [start]
    while stack:
        at = stack.pop()
        if at in wanted:
            return True
        if at in seen:
            continue
        seen.add(at)
        module, _, function = _split(at)
        if module is not None and (at == start or at.startswith(_module_of(start))):
            stack += module.calls.get(function, ())
    return False


def _split(name: str) -> tuple[Module | None, str, str]:
    home = _module_of(name)
    return modules().get(home), home, name.removeprefix(f"{home}.")


def _module_of(name: str) -> str:
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (one.asname or one.name.partition(".")[0], one.name if one.asname else one.name.partition(".")[0])
                for one in node.names
            )


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else f"?.{node.attr}"
    return "?" if isinstance(node, ast.Call) else ""
