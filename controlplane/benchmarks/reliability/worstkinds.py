"""Texts that a regular expression is slow on, made from its own parse tree, and how long each takes.

A pattern is slow where it repeats something, does not find what has to follow, and tries again from elsewhere. So each
text is what leads up to a repeat, many times what is repeated, and an end that cannot follow. What is repeated is each
character that the pattern tells apart, and each pair of them.
"""

import gc
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

ALWAYS = 'a0 "\\/:'  # told apart by nearly all patterns
MAX_LETTERS = 12
ENDS = ("", "\x00", "!")
UNBOUNDED = 16  # a repeat of fewer cannot be slow
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
CLASSES = {
    sre.CATEGORY_DIGIT: "0",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_WORD: "-",
}
TRIAL, CHECK = 20, 512  # at the first an exponential pattern shows itself in time, at the second a slow one
HOPELESS_SECONDS = 0.005
RUNS = 5
SURE, MAX_TURNS = 4.7, 5  # of a text four times as long: less is no doubt, more is looked at up to so often
TOO_SHORT = 0.003  # s: below it caches and the clock's grain are part of what is measured, and it does no harm


@dataclass(frozen=True, slots=True)
class Kind:
    """A text of any length: its beginning, what is repeated, its end."""

    begin: str
    pump: str
    end: str

    def of(self, size: int) -> str:
        """About so many characters."""
        return self.begin + self.pump * (size // len(self.pump)) + self.end


def run(compiled: "re.Pattern[Any]", use: str) -> Callable[[str], object]:
    """What is done with a text: the use, to its end."""
    is_bytes = isinstance(compiled.pattern, bytes)
    method = getattr(compiled, use)

    def done(text: str) -> object:
        given = text.encode() if is_bytes else text
        if use in ("sub", "subn"):
            return method(b"" if is_bytes else "", given)
        found = method(given)
        return deque(found, maxlen=0) if use == "finditer" else found

    return done


def seconds(work: Callable[[str], object], text: str, runs: int = 1) -> float:
    """Processor time of one run, the least of so many."""
    return min(_once(work, text) for _ in range(runs))


def slowest(work: Callable[[str], object], given: Iterator[Kind], most: int = 2) -> list[Kind]:
    """The kinds that this work takes longest on; found at small sizes, so that a slow one is found in time."""
    timed: list[tuple[float, Kind]] = []
    for kind in given:
        took = seconds(work, kind.of(TRIAL), 2)
        if took >= HOPELESS_SECONDS:
            return [kind]
        timed.append((seconds(work, kind.of(CHECK)), kind))
    return [kind for _, kind in sorted(timed, key=lambda one: -one[0])[:most]]


def growth(work: Callable[[str], object], kind: Kind, small: int, large: int) -> float:
    """How many times as long the larger size takes, each the least of some runs; 0.0 where it takes no time at all.

    Infinite where that shows at small sizes: the larger ones would take minutes.
    """
    size, before = TRIAL, seconds(work, kind.of(TRIAL), 2)
    if before >= HOPELESS_SECONDS:
        return float("inf")
    while size < small:
        size, last = size * 4, before
        before = seconds(work, kind.of(size))
        if before > max(0.01, 8 * last) and seconds(work, kind.of(size), RUNS) > 8 * last:
            return float("inf")
    if seconds(work, kind.of(large)) <= TOO_SHORT:
        return 0.0
    # By turns, so that other work on the machine meets both alike; again where only that may be what is seen.
    texts, least = (kind.of(small), kind.of(large)), [float("inf"), float("inf")]
    for turn in range(1, RUNS * MAX_TURNS + 1):
        least = [min(known, seconds(work, text)) for known, text in zip(least, texts, strict=True)]
        if turn % RUNS == 0 and least[1] <= SURE * least[0]:
            break
    return least[1] / least[0]


def kinds(compiled: "re.Pattern[Any]") -> Iterator[Kind]:
    """The texts to try."""
    text = compiled.pattern.decode("latin-1") if isinstance(compiled.pattern, bytes) else compiled.pattern
    tree = _parser.parse(text, compiled.flags & ~re.UNICODE if isinstance(compiled.pattern, bytes) else compiled.flags)
    letters = list(dict.fromkeys([*_letters(tree), *ALWAYS]))[:MAX_LETTERS]
    begins = list(dict.fromkeys(["", *_begins(tree, "")]))[:6]
    pumps = [*letters, *(a + b for a, b in product(letters, letters) if a != b)]
    for begin, pump, end in product(begins, pumps, ENDS):
        yield Kind(begin, pump, end)


def _once(work: Callable[[str], object], text: str) -> float:
    """Of this thread alone, and without the collector: neither is the pattern's time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work(text)
        return time.thread_time() - began
    finally:
        if was_on:
            gc.enable()


def _letters(tree: Any) -> Iterator[str]:
    """A character for each that the pattern tells apart."""
    for operator, value in tree:
        if operator in (sre.LITERAL, sre.NOT_LITERAL):
            yield chr(value)
        elif operator is sre.RANGE:
            yield from (chr(value[0]), chr(value[1]))
        elif operator is sre.CATEGORY:
            yield CLASSES[value]
        elif operator is sre.IN:
            yield from _letters(value)
        else:
            for inner in _parts(operator, value):
                yield from _letters(inner)


def _begins(tree: Any, before: str) -> Iterator[str]:
    """What leads up to each repeat: the shortest text that what stands before it matches."""
    for operator, value in tree:
        if operator in REPEATS:
            least, most, inner = value
            if most > UNBOUNDED:
                yield before
            yield from _begins(inner, before)
            before += _shortest(inner) * least
        else:
            for inner in _parts(operator, value):
                yield from _begins(inner, before)
            before += _shortest([(operator, value)])


def _shortest(tree: Any) -> str:
    """A short text that a tree matches."""
    return "".join(_one(operator, value) for operator, value in tree)


def _one(operator: Any, value: Any) -> str:
    if operator is sre.LITERAL:
        return chr(value)
    if operator is sre.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if operator is sre.ANY:
        return "a"
    if operator is sre.IN:
        return "a" if value[0][0] is sre.NEGATE else next(_letters(value), "a")
    if operator in (sre.ASSERT, sre.ASSERT_NOT):
        return ""
    least = value[0] if operator in REPEATS else 1
    return "".join(_shortest(inner) for inner in _parts(operator, value)[:1]) * least


def _parts(operator: Any, value: Any) -> list[Any]:
    """The trees inside one operator."""
    if operator is sre.SUBPATTERN:
        return [value[3]]
    if operator is sre.BRANCH:
        return list(value[1])
    if operator in REPEATS:
        return [value[2]]
    if operator in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    return [value] if operator is sre.ATOMIC_GROUP else []
