"""Documents, comments and messages lead to what is there: links, headings, files, promises and their tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.invariants.check import INVARIANTS
from tests.references import ROOT, TEST, anchors, functions, links, missing_tests, tracked

DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]
# A document named in text: `docs/cli.md`, `cli.md#exit-codes`; no part of an address on the web, no pattern.
NAMED = re.compile(r"(?<![\w./:*{}<>-])((?:\.{1,2}/)*\w[\w./-]*\.md)\b(?:#([\w-]+))?")
# An issue of somebody else has its project beside it (`kueue#1450`); a bare number is known to nobody who reads this.
ISSUE = re.compile(r"\bissues? +#?\d|(?<![\w/-]) #\d{1,3}\b", re.I)
PROMISE = re.compile(r"(?<![\w%./#-])([SLPFV]\d{1,2})\b(?!-\w)")
NO_PROMISES = {
    "S99": "tests/controlplane/test_audit.py: an invariant of an earlier version",
}
GROUPS = {"S": 19, "L": 10, "P": 18, "F": 17, "V": 7}  # rows of each table, so that a table that is not read shows


def promises() -> dict[str, str]:
    """The rows of docs/promises.md by name."""
    rows = re.findall(r"^\| ([A-Z]\d+) \| (.+) \|$", (ROOT / "docs" / "promises.md").read_text(), re.M)
    assert len(rows) == len(dict(rows)), "a name is given twice"
    return dict(rows)


def texts() -> Iterator[tuple[str, int, str]]:
    """File, number and text of each line of ours but of this file, which names what must not be named."""
    for path in tracked():
        if path.resolve() != Path(__file__).resolve():
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                yield str(path.relative_to(ROOT)), number, line


def broken_link(document: Path, target: str) -> bool:
    """Whether a link leads to no file of ours, or to no heading of it."""
    if re.match(r"[a-z]+:", target):
        return False
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    return not path.exists() or bool(anchor) and anchor not in anchors(path)


def unknown_document(file: str, name: str, anchor: str) -> bool:
    """Whether text names a document that is neither at the root, in docs/ nor beside the file; or no heading of it."""
    places = [folder / name for folder in (ROOT, ROOT / "docs", (ROOT / file).parent)]
    found = [place.resolve() for place in places if place.resolve() in {path.resolve() for path in DOCUMENTS}]
    return not found or bool(anchor) and not any(anchor in anchors(path) for path in found)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert not [target for target in links(document.read_text()) if broken_link(document, target)]


def test_a_link_to_nowhere_is_found() -> None:
    readme = ROOT / "README.md"
    assert broken_link(readme, "docs/nothing.md")
    assert broken_link(readme, "docs/cli.md#nothing")
    assert not broken_link(readme, "docs/cli.md#exit-codes")
    assert links("[a](b.md#c) ![d](e.webp)\n```\n[x](y)\n```\n`[p](q)`") == ["b.md#c", "e.webp"]


def test_every_document_that_text_names_is_in_the_repository() -> None:
    named = [(file, line, *found) for file, line, text in texts() for found in NAMED.findall(text)]
    assert len(named) > 100
    assert not [f"{file}:{line}: {name}#{anchor}" for file, line, name, anchor in named
                if unknown_document(file, name, anchor)]  # fmt: skip


@pytest.mark.parametrize("text", ["see reliability.md", "(design/algorithms.md 3.2)", "docs/cli.md#nothing", "../x.md"])
def test_a_document_that_is_not_there_is_found(text: str) -> None:
    ((name, anchor),) = NAMED.findall(text)
    assert unknown_document("scheduler/preemption/cost.py", name, anchor)


def test_no_text_names_an_issue_that_its_reader_cannot_look_up() -> None:
    assert not [f"{file}:{line}: {text.strip()}" for file, line, text in texts() if ISSUE.search(text)]
    assert ISSUE.search("(issue 6, unfair waits)")
    assert not ISSUE.search("after kueue#1450, kubernetes/kubernetes #45220")


def test_every_promise_that_text_names_is_in_the_document() -> None:
    known = promises().keys() | NO_PROMISES.keys()
    named = [(file, line, name) for file, line, text in texts() if file.endswith((".py", ".md"))
             for name in PROMISE.findall(text)]  # fmt: skip
    assert len(named) > 100
    assert not [f"{file}:{line}: {name}" for file, line, name in named if name not in known]


def test_every_promise_names_tests_and_they_are_there() -> None:
    rows = promises()
    assert {group: sum(name[0] == group for name in rows) for group in GROUPS} == GROUPS
    assert not [name for name, row in rows.items() if not TEST.search(row)]
    assert not missing_tests((ROOT / "docs" / "promises.md").read_text())


def test_every_invariant_that_is_audited_is_a_promise_with_its_planted_bug() -> None:
    rows, bugs = promises(), ROOT / "tests" / "invariants" / "test_planted_bugs.py"
    for name in INVARIANTS:
        trips = [test for test in functions(bugs) if test.startswith(f"test_{name.lower()}_")]
        assert trips, f"no planted bug trips {name}"
        assert all(f"test_planted_bugs.py::{test}`" in rows[name] for test in trips), name


def test_every_algorithm_names_its_file_and_every_source_its_row() -> None:
    text = (ROOT / "docs" / "algorithms.md").read_text()
    files = set(re.findall(r"`([a-z]+/[\w/]+\.py)`", text))
    assert len(files) > 30
    assert not [file for file in files if not (ROOT / file).exists()]
    cores = [path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in
             ("gpushare", "scheduler", "autoscaler")]  # fmt: skip
    sourced = {str(path.relative_to(ROOT)) for path in cores if re.search(r"^\s*\"*Source: ", path.read_text(), re.M)}
    assert len(sourced) > 10
    assert not sourced - files
