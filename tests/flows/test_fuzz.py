"""Requests made from the OpenAPI document, at a served Weft on SQLite and on Postgres: none is a server error."""

from pathlib import Path

import pytest

from controlplane.benchmarks.harness.figure import Options
from controlplane.benchmarks.reliability import fuzz
from tests.thoroughness import at_least


def assert_clean(cases: int) -> None:
    """Ask half of them on each database."""
    found = fuzz.run(Options(Path(), jobs=cases // 2), lambda part, text: None)
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["fuzz.cases"] >= cases, found.notes
    assert figures["fuzz.server_errors"] == 0, found.notes
    assert figures["fuzz.failed_checks"] == 0, found.notes


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_thousand_cases_are_answered_as_documented(postgres_url: str) -> None:
    assert_clean(at_least(2_000, 500))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_twenty_thousand_cases_on_each_are_answered_as_documented(postgres_url: str) -> None:
    assert_clean(40_000)
