"""Every test can fail: it asserts, and no assertion holds whatever the code does."""

import ast

import pytest

from tests.assertions import ROOT, can_fail, every_test, hollow, modules

# What asserts in a way that the search does not follow, and how.
OTHERWISE = {
    "tests/documents/test_commands.py::test_a_server_of_the_documents_runs_until_ctrl_c": "in serving()",
    "tests/scheduler/test_properties.py::test_every_round_keeps_every_invariant": "calls the functions of INVARIANTS",
}


def test_every_test_asserts_something_itself_or_through_a_helper() -> None:
    silent = {f"{path.relative_to(ROOT)}::{test.name}" for path, test in every_test() if not can_fail(path, test)}
    assert silent == OTHERWISE.keys()
    assert len(list(every_test())) > 1000


def test_no_assertion_holds_whatever_the_code_does() -> None:
    assert [f"{path.relative_to(ROOT)}:{line}: {why}" for path, module in modules().items()
            for line, why in hollow(module)] == []  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "assert True",
        "assert 'text'",
        "assert (found, 'it was found')",
        "assert found or True",
        "assert len(found) >= 0",
        "assert rows.count() >= 0",
        "assert found == found",
        "assert found in (True, False)",
        "assert connection.vendor in ('sqlite', 'postgresql')",
        "with pytest.raises(Exception): act()",
    ],
)
def test_an_assertion_that_cannot_fail_is_found(code: str) -> None:
    assert len(list(hollow(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "assert len(found) > 0",
        "assert found in (0, 1)",
        "assert act() == act()",  # the same twice: that it is a function of its input
        "assert found is None or found == 1",
        "with pytest.raises(Exception, match='text'): act()",
    ],
)
def test_an_assertion_that_can_fail_is_none_of_these(code: str) -> None:
    assert list(hollow(ast.parse(code))) == []
