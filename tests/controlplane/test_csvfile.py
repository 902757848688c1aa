"""CSV that a spreadsheet reads as data: RFC 4180, and no text that it would compute."""

import csv
import io

import pytest

from controlplane.domain.csvfile import table


@pytest.mark.parametrize("evil", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "\r=1", "\n=1"])
def test_text_that_would_be_a_formula_gets_an_apostrophe(evil: str) -> None:
    ((_,), (cell,)) = csv.reader(io.StringIO(table(["name"], [[evil]]), newline=""))
    assert cell == f"'{evil}"


def test_numbers_stay_numbers_and_nothing_is_an_empty_cell() -> None:
    assert table(["a", "b", "c"], [[-1.5, None, 'say "hi", now']]) == 'a,b,c\r\n-1.5,,"say ""hi"", now"\r\n'
