"""Every regular expression of the product, found in its syntax tree and in its addresses, and whose text reaches it.

`patterns.txt` declares the reach of each: a pattern without a line is a fault, and so is a line without a pattern.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.urls import get_resolver
from django.urls.resolvers import URLResolver

TABLE = Path(__file__).with_suffix(".txt")
PACKAGES = ("gpushare", "scheduler", "autoscaler", "controlplane", "frontend", "weft", "scripts")
# strangers: anybody's, before a sign-in. people: of those who are signed in. outside: what other servers answer.
# operators: settings, files and command lines of whoever runs Weft. ours: what our own code or tools wrote.
REACHES = ("strangers", "people", "outside", "operators", "ours")
FED = frozenset({"strangers", "people", "outside"})
USES = frozenset({"search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"})
# What else is given a pattern: the position of the argument, its name, and how the pattern is used.
TAKERS = {
    "Text": (1, "pattern", "fullmatch"),
    "RegexValidator": (0, "regex", "search"),
    "RegexField": (0, "regex", "search"),
}
IN_SETTINGS = (
    "SECURE_REDIRECT_EXEMPT",
    "DISALLOWED_USER_AGENTS",
    "IGNORABLE_404_URLS",
)  # Django searches paths for them
ADDRESSES = "addresses"  # the file that the URLconf's patterns are declared under


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern, where it stands, and one way in which it is used. compiled None: it is put together at run time."""

    file: str
    name: str  # what the value is assigned to, or the function around it
    compiled: "re.Pattern[Any] | None"
    use: str


@dataclass(frozen=True, slots=True)
class Line:
    """Whose text reaches the patterns of one name in one file."""

    reach: str
    file: str
    name: str

    def is_about(self, one: Pattern) -> bool:
        """Whether it declares this pattern."""
        return (self.file, self.name) in ((one.file, one.name), (one.file, "*"))


def lines(text: str | None = None) -> tuple[Line, ...]:
    """The table. Raises ValueError for a line that says nothing."""
    given = (TABLE.read_text() if text is None else text).splitlines()
    return tuple(_line(one) for one in given if one.strip() and not one.startswith("#"))


def found(root: Path | None = None) -> tuple[Pattern, ...]:
    """All patterns of the sources, the addresses and the settings."""
    trees = dict(_trees(root or settings.BASE_DIR))
    uses = _uses(trees)
    out = [one for file, tree in trees.items() for one in _of_file(file, tree, uses)]
    out += [Pattern(ADDRESSES, name, regex, "search") for name, regex in _addresses()]
    for name in IN_SETTINGS:
        out += [Pattern("controlplane/settings.py", name, re.compile(one), "search") for one in getattr(settings, name)]
    return tuple(out)


def reach(one: Pattern, table: tuple[Line, ...]) -> str | None:
    """Whose text reaches it; None where no line says so."""
    return next((line.reach for line in table if line.is_about(one)), None)


def _line(text: str) -> Line:
    parts = text.split()
    if len(parts) != 3 or parts[0] not in REACHES:
        raise ValueError(f"{TABLE.name}: {text!r} is not REACH FILE NAME.")
    return Line(*parts)


# --- the syntax tree ------------------------------------------------------------------------------


def _trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """The sources that make or use a pattern. Most do neither, and parsing all of them takes seconds."""
    words = [f".{use}(" for use in USES] + [f"{taker}(" for taker in TAKERS] + ["re.compile("]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            text = path.read_text()
            if any(word in text for word in words):
                yield path.relative_to(root).as_posix(), ast.parse(text)


def _uses(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """How each name of each module is used: `parsers.NAME.search(...)` anywhere is a `search` of that name."""
    uses: dict[tuple[str, str], set[str]] = {}
    for file, tree in trees.items():
        homes = _homes(file, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in USES:
                parent, _, name = _dotted(node.value).rpartition(".")
                home = homes.get(name) if not parent else None
                if parent in homes:
                    home = (".".join(homes[parent]), name)
                if home:
                    uses.setdefault(home, set()).add(node.attr)
    return uses


def _dotted(node: ast.expr) -> str:
    """`a.b` as text; empty for what is no such name."""
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
    return f"{before}.{node.attr}" if before and isinstance(node, ast.Attribute) else ""


def _homes(file: str, tree: ast.Module) -> dict[str, tuple[str, str]]:
    """The module and name behind each name of a file: its own, and what it imports."""
    own = _module(file)
    homes = {name: (own, name) for name in (n.id for n in ast.walk(tree) if isinstance(n, ast.Name))}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            homes |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return homes


def _of_file(file: str, tree: ast.Module, uses: Mapping[tuple[str, str], set[str]]) -> Iterator[Pattern]:
    for node, name in _named(tree):
        if not isinstance(node, ast.Call):
            continue
        called = _dotted(node.func)
        if called == "re.compile":
            how = uses.get((_module(file), name)) or {"search"}
            yield from (Pattern(file, name, _made(file, node), use) for use in sorted(how))
        elif called.startswith("re.") and called[3:] in USES:
            yield Pattern(file, name, _made(file, node), called[3:])
        elif called.rpartition(".")[2] in TAKERS and (given := _given(node)):
            yield Pattern(file, name, _value(file, given[0]), given[1])


def _named(tree: ast.AST, name: str = "-") -> Iterator[tuple[ast.AST, str]]:
    """Every node with the name of what it is assigned to or stands in."""
    for node in ast.iter_child_nodes(tree):
        inner = name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(tree, ast.Module | ast.ClassDef):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            inner = ast.unparse(target)
        yield node, inner
        yield from _named(node, inner)


def _given(call: ast.Call) -> tuple[ast.expr, str] | None:
    position, keyword, use = TAKERS[_dotted(call.func).rpartition(".")[2]]
    named = [one.value for one in call.keywords if one.arg == keyword]
    given = named or call.args[position : position + 1]
    return (given[0], use) if given else None


def _made(file: str, call: ast.Call) -> "re.Pattern[Any] | None":
    """The pattern of a call of `re`: its first argument, and the flags if it compiles."""
    flags = [one.value for one in call.keywords if one.arg == "flags"]
    if not flags and _dotted(call.func) == "re.compile":
        flags = call.args[1:2]
    return _value(file, call.args[0], *flags)


def _value(file: str, *expressions: ast.expr) -> "re.Pattern[Any] | None":
    """Compile what the expressions give in their module; None where they have names of a function."""
    if any(isinstance(one, ast.Starred) for one in expressions):
        return None
    names: dict[str, Any] = {"re": re}
    if any(isinstance(node, ast.Name) and node.id != "re" for one in expressions for node in ast.walk(one)):
        names |= vars(import_module(_module(file)))
    try:
        return re.compile(*(eval(ast.unparse(one), names) for one in expressions))  # noqa: S307 - our own source
    except NameError:
        return None


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# --- the addresses --------------------------------------------------------------------------------


def _addresses(resolver: Any = None, before: str = "") -> Iterator[tuple[str, "re.Pattern[str]"]]:
    """The pattern of each part of an address, as Django compiled it."""
    for one in (resolver or get_resolver()).url_patterns:
        yield before + str(one.pattern), one.pattern.regex
        if isinstance(one, URLResolver):
            yield from _addresses(one, before + str(one.pattern))
