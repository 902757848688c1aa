"""No text makes a regular expression slow: the time grows as the text does, whatever it is made of."""

import re
from functools import cache

import pytest

from controlplane.benchmarks.reliability import patterns, worstkinds
from controlplane.benchmarks.reliability.patterns import Pattern
from tests.servers import ROOT

SMALL, LARGE = 64 * 1024, 256 * 1024
MAX_GROWTH = 7.0  # in linear time it is 4, up to 5.5 where others fill the processor's cache; in quadratic time 16
# What the search for patterns would not find: another library, or `re` by another name.
HIDDEN = re.compile(r"^\s*(?:from re\b|import re as|(?:from|import) regex\b)", re.MULTILINE)


@cache
def found() -> tuple[Pattern, ...]:
    return patterns.found()


def growth(compiled: re.Pattern[str], use: str) -> tuple[float, worstkinds.Kind | None]:
    """How much longer the slowest kind of text takes at the larger size, and the kind."""
    work, worst = worstkinds.run(compiled, use), (0.0, None)
    for kind in worstkinds.slowest(work, worstkinds.kinds(compiled)):
        worst = max(worst, (worstkinds.growth(work, kind, SMALL, LARGE), kind), key=lambda one: one[0])
    return worst


def test_every_pattern_has_its_reach_declared_and_every_line_a_pattern() -> None:
    table = patterns.lines()
    assert {(one.file, one.name) for one in found() if patterns.reach(one, table) is None} == set()
    assert {line for line in table if not any(map(line.is_about, found()))} == set()


def test_what_is_put_together_at_run_time_is_no_strangers() -> None:
    table = patterns.lines()
    unknown = [one for one in found() if one.compiled is None and patterns.reach(one, table) in patterns.FED]
    assert unknown == []


def test_patterns_are_made_by_re_alone_and_by_its_name() -> None:
    sources = [path for package in patterns.PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in sources if HIDDEN.search(path.read_text())] == ["worstkinds.py"]


@pytest.mark.parametrize("file", sorted({line.file for line in patterns.lines() if line.reach in patterns.FED}))
def test_the_time_of_no_pattern_grows_faster_than_the_text(file: str) -> None:
    table = patterns.lines()
    fed = {
        (one.compiled, one.use): one
        for one in found()
        if one.file == file and one.compiled is not None and patterns.reach(one, table) in patterns.FED
    }
    slow = {}
    for (compiled, use), one in fed.items():
        grown, kind = growth(compiled, use)
        if grown > MAX_GROWTH:
            slow[one.name, compiled.pattern, use] = (round(grown, 1), kind)
    assert fed
    assert slow == {}


@pytest.mark.parametrize(
    ("pattern", "use"),
    [
        (r'"(?:[^"\\]|\\.)*"|([\[\]{}])', "findall"),  # a text of escaped quotes that does not end
        (r"(\w+://[^\s:/@]*:)[^\s@/]+@", "sub"),  # a long path
        (r"^r/(.+)/(.+)/\Z", "search"),  # an address of two parts of any text
        (r"(a+)+b", "fullmatch"),
        (r"\s+$", "sub"),
        (r"(.+)-(\d+)", "search"),
    ],
)
def test_patterns_that_are_slow_are_found(pattern: str, use: str) -> None:
    assert growth(re.compile(pattern, re.DOTALL), use)[0] > MAX_GROWTH


def test_a_line_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="REACH FILE NAME"):
        patterns.lines("everybody controlplane/x.py NAME")
