"""A word that became another, and a rule of which two copies disagreed: the rows of the table."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """An old text (a regular expression) and the new one (with \\1 for its groups)."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule whose copies disagreed. test: as pytest names it."""

    rule: str
    right: str
    test: str
