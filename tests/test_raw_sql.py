"""Raw SQL lies in few modules, each of which says why: the ORM is for all else.

REASONS are all modules that hold a statement or a part of one, each with its reason, which its docstring tells too.
DOORS are those of them that run one at a cursor. The list is closed: what else is needed goes to one of these, by its
subject.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_statements_are_run_in_few_modules() -> None:
    assert {name for name, tree in modules() if runs(tree)} == DOORS


def test_raw_sql_lies_in_the_modules_that_are_listed() -> None:
    assert {name for name, tree in modules() if has_text(tree) or runs(tree)} == REASONS.keys()
    assert len(REASONS) <= 12


def test_each_module_with_raw_sql_says_why_it_needs_it() -> None:
    silent = [name for name, tree in modules() if name in REASONS and "SQL" not in (ast.get_docstring(tree) or "")]
    assert silent == []


@pytest.mark.parametrize(
    "text",
    [
        "with connection.cursor() as cursor: pass",
        "cursor.execute('SELECT 1')",
        "Workload.objects.raw('SELECT 1')",
        "found.annotate(one=RawSQL('1', ()))",
        "found.extra(where=['1 = 1'])",
    ],
)
def test_a_module_that_runs_a_statement_is_found(text: str) -> None:
    assert runs(ast.parse(text))


@pytest.mark.parametrize("text", ["'SELECT 1'", "f'WHERE {named} '", "select(Team, (), 'ORDER BY id ')"])
def test_a_module_that_holds_a_statement_is_found(text: str) -> None:
    assert has_text(ast.parse(text))


@pytest.mark.parametrize("text", ["statements.execute(made)", "pipe.execute()", "'Selects what waits.'"])
def test_what_only_looks_alike_is_not(text: str) -> None:
    tree = ast.parse(text)
    assert not runs(tree)
    assert not has_text(tree)
