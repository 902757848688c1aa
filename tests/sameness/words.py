"""What may differ between before and now: old words and what they became. A comparison applies these and nothing else.

A row of TABLE is a pattern and its replacement, as `re.sub` takes them: most are a word or a sentence, some keep the
numbers and names in a sentence. They are applied in their order to every text and every key of what was recorded
before; what a comparison then still finds different is a change of behaviour. DECIDED names the rules of which two
copies disagreed, which of the two was right, and the test that pins it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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


TABLE: Sequence[Word] = ()
DECIDED: Sequence[Rule] = ()


def translate(value: Any, table: Sequence[Word] = TABLE) -> Any:
    """The recorded value (JSON) in the words of now: keys and texts, however deep."""
    if isinstance(value, str):
        for word in table:
            value = re.sub(word.old, word.new, value)
        return value
    if isinstance(value, list):
        return [translate(one, table) for one in value]
    if isinstance(value, dict):
        return {translate(key, table): translate(one, table) for key, one in value.items()}
    return value
