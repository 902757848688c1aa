"""The lists of retired terms, and the places of a text where one is used as a term.

A line of a list is `regex <tab> what to say instead <tab> example`. The pattern finds the use as a term only, so that
a plain English word stays free ("owns" of a team's quota, not of a person's token); the example is a sentence that it
finds. An entry joins when its last use is gone.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Term:
    """A retired term: the pattern of its use, what to say instead, and a sentence with it."""

    pattern: re.Pattern[str]
    instead: str
    example: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text that a person reads, and where it stands."""

    place: str
    text: str


@cache
def retired() -> tuple[Term, ...]:
    """All entries of all lists."""
    rows = [
        line.split("\t")
        for path in sorted(FOLDER.glob("*.txt"))
        if path.name != "names.txt"  # those are names in the code: test_names.py
        for line in path.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    return tuple(Term(re.compile(pattern), instead, example) for pattern, instead, example in rows)


def uses(texts: Iterable[Text], terms: Iterable[Term]) -> Iterator[str]:
    """Each use of a retired term: where, the word, and what to say instead."""
    terms = tuple(terms)
    for one in texts:
        joined = " ".join(one.text.split())
        for term in terms:
            if found := term.pattern.search(joined):
                around = joined[max(0, found.start() - 40) : found.end() + 40]
                yield f"{one.place}: {around!r}: say {term.instead!r}"
