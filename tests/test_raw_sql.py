"""Raw SQL lies in few modules, each of which says why: the ORM is for all else. tests/rawsql.py lists them."""

import ast

import pytest

from tests.controlplane.test_both_databases import ELSEWHERE, ONLY_ON
from tests.database import PRODUCT, both_databases
from tests.rawsql import DOORS, REASONS, functions, has_text, modules, runs


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


def test_functions_that_run_sql_are_found_where_they_stand() -> None:
    assert {"services/accounts/tokens:owner", "services/scheduling/leases:HeldLease.check"} <= functions()


def test_what_runs_on_both_databases_is_there() -> None:
    for line in both_databases():
        file, _, test = line.partition("::")
        assert (PRODUCT / file).exists(), line
        assert f"def {test}(" in (PRODUCT / file).read_text() or not test, line


def test_functions_that_need_not_run_are_there() -> None:
    assert set(ELSEWHERE) | set(ONLY_ON) <= functions()
