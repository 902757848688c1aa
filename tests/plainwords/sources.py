"""All that a person reads: sentences of the code, help of both command lines, the REST schema, pages and documents."""

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from django.core.management import get_commands, load_command_class
from drf_spectacular.generators import SchemaGenerator
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from tests.plainwords.terms import Text
from tests.references import ROOT, prose, tracked
from weft.cli import app

CORES = ("scheduler", "autoscaler", "gpushare")
NOT_SAID = ("controlplane/migrations/",)  # they name what was written before them
MIN_WORDS = 3  # of a literal that is a sentence, or a part of one


def sentences() -> Iterator[Text]:
    """The literals of the product's code that are sentences: reasons, messages, labels and help; no docstrings."""
    for path in tracked():
        name = str(path.relative_to(ROOT))
        is_ours = path.suffix == ".py" and name.startswith((*CORES, "controlplane", "frontend"))
        if is_ours and not name.startswith(NOT_SAID):
            yield from (Text(f"{name}:{line}", text) for line, text in literals(path.read_text()))


def literals(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each literal of at least three words; `{}` stands where a value is put in."""
    tree = ast.parse(code)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in inner and isinstance(node, ast.Constant | ast.JoinedStr):
            text = _text(node)
            if len(text.split()) >= MIN_WORDS:
                yield node.lineno, text


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values if _is_text(part))


def _is_text(part: ast.expr) -> bool:
    return not isinstance(part, ast.Constant) or isinstance(part.value, str)


def management() -> Iterator[Text]:
    """The help of our management commands."""
    for name, package in get_commands().items():
        if str(package).startswith("controlplane"):
            parser = load_command_class(str(package), name).create_parser("manage.py", name)
            yield Text(f"manage.py {name} --help", parser.format_help())


def schema() -> Iterator[Text]:
    """Titles and descriptions of the REST schema."""
    yield from _described(SchemaGenerator().get_schema(public=True), "schema")


def _described(value: object, place: str) -> Iterator[Text]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("description", "summary", "title") and isinstance(inner, str):
                yield Text(f"{place}/{key}", inner)
            else:
                yield from _described(inner, f"{place}/{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _described(inner, place)


def documents() -> Iterator[Text]:
    """README, CONTRIBUTING, ARCHITECTURE and docs/, a paragraph each; no code blocks."""
    for path in tracked():
        if path.suffix == ".md" and (path.parent in (ROOT, ROOT / "docs")):
            parts = re.split(r"\n\s*\n|\n(?=[|-] )", prose(path.read_text()))
            yield from (Text(str(path.relative_to(ROOT)), part) for part in parts)


def templates() -> Iterator[Text]:
    """What the templates of pages say by themselves."""
    for path in sorted(Path(ROOT, "frontend", "templates").rglob("*.html")):
        plain = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", " ", path.read_text(), flags=re.S)
        yield Text(str(path.relative_to(ROOT)), visible(plain))


class _Visible(HTMLParser):
    """The text of a page, and the attributes that are read out or shown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in ("script", "style")
        self.found += [value for name, value in attrs if value and name in ("title", "aria-label", "placeholder")]

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.found.append(data)


def visible(page: str) -> str:
    """What a person sees of a page, or has read out."""
    parser = _Visible()
    parser.feed(page)
    return " ".join(parser.found)


def command_line() -> Iterator[Text]:
    """The help of `weft` and of each of its commands."""
    yield from _help(get_command(app), ())


def _help(command: object, path: tuple[str, ...]) -> Iterator[Text]:
    yield Text(" ".join(("weft", *path)), CliRunner().invoke(app, [*path, "--help"]).output)
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _help(inner, (*path, name))
