"""The checklist of docs/security.md: every test that it names is there, and nothing holds without one."""

import re

from tests.references import ROOT, TEST, missing_tests

STATES = ("holds", "partly", "not yet", "none")
# The sections and requirements of ASVS 5.0 that the table must have, by their first two figures.
SECTIONS = {
    *("1.2", "1.3", "1.4", "1.5", "2.2", "2.3", "2.4", "4.1", "4.2", "7.2", "7.3", "7.4", "7.5", "8.1", "8.2", "8.3"),
    *("8.4", "13.1", "13.2", "13.3", "13.4", "15.1", "15.2", "15.3", "15.4", "16.2", "16.3", "16.4", "16.5"),
}
CHAPTERS = {str(number) for number in range(1, 18)}


def rows() -> list[list[str]]:
    """The cells of each row: number, requirement, state, how, tests."""
    text = (ROOT / "docs" / "security.md").read_text().partition("## ASVS 5.0")[2]
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return found[1:]


def test_every_test_that_the_checklist_names_is_there() -> None:
    assert len({pair for row in rows() for pair in TEST.findall(row[4])}) > 60
    assert not [name for row in rows() for name in missing_tests(row[4])]


def test_what_holds_has_a_test_and_what_does_not_says_what_is_missing() -> None:
    for number, requirement, state, how, tests in rows():
        assert state in STATES, number
        assert requirement, number
        assert TEST.findall(tests) or state != "holds", f"{number} holds without a test"
        assert how or state in ("holds", "none"), f"{number} is {state}, without saying why"
        assert not TEST.sub("", tests).strip(), f"{number} names a test in another form: {tests}"


def test_no_part_of_the_standard_is_left_out() -> None:
    numbers = re.findall(r"\d+(?:\.\d+)*", " ".join(row[0] for row in rows()))
    assert {".".join(one.split(".")[:2]) for one in numbers} >= SECTIONS
    assert {one.split(".")[0] for one in numbers} == CHAPTERS
