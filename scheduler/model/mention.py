"""How sentences of the scheduler speak of workloads: by id, never by name, as not every reader may see each of them.

A mention is `[[w:ID ID ID +2]]`: ids, and how many more there are. What shows the sentence puts names in place of the
ids that its reader may see, and counts the others.
"""

import re
from collections.abc import Iterator, Mapping

OPEN, CLOSE = "[[w:", "]]"
MENTION = re.compile(r"\[\[w:([^\[\]]{0,200})\]\]")
MAX_NAMED = 3  # sentences stay short


def mention(*ids: str) -> str:
    """What stands in a sentence for these workloads; at least one. The ones after the first MAX_NAMED are counted."""
    more = len(ids) - MAX_NAMED
    return f"{OPEN}{' '.join(ids[:MAX_NAMED])}{f' +{more}' if more > 0 else ''}{CLOSE}"


def mentioned(text: str) -> Iterator[str]:
    """The ids that a text mentions."""
    for found in MENTION.finditer(text):
        yield from (word for word in found[1].split() if not word.startswith("+"))


def named(text: str, names: Mapping[str, str]) -> str:
    """The text with these names, by id, in place of what it mentions; what has no name there is counted."""
    return MENTION.sub(lambda found: words(found[1], names), text) if OPEN in text else text


def words(inside: str, names: Mapping[str, str]) -> str:
    """What is read in place of one mention: `a, b and 3 more`, or `another workload` where no name is given."""
    parts = inside.split()
    more = sum(int(part) for part in parts if part.startswith("+") and part[1:].isdigit() and len(part) < 9)
    ids = [part for part in parts if not part.startswith("+")]
    known = [names[uid] for uid in ids if uid in names]
    rest = len(ids) - len(known) + more
    if not known:
        return "another workload" if rest <= 1 else f"{rest} other workloads"
    if rest:
        return f"{', '.join(known)} and {rest} more"
    return " and ".join([", ".join(known[:-1]), known[-1]] if len(known) > 1 else known)


def counted(number: int, noun: str) -> str:
    """1 worker, 2 workers."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def clipped(text: str, most: int) -> str:
    """At most so many characters of a text, without half a mention at its end."""
    cut = text[:most]
    begins = cut.rfind("[[")
    return cut[:begins] if len(text) > most and begins > cut.rfind(CLOSE) else cut
