"""CEL as the policies write it: rules, strings, lists."""

import json
from dataclasses import dataclass

OURS = "k.startsWith('weft.dev/') || k.startsWith('internal.weft.dev/')"


@dataclass(frozen=True, slots=True)
class Rule:
    """CEL that must be true, and what is said when it is not: a sentence, or CEL (`told`) that makes one."""

    check: str
    message: str
    told: str = ""


def text(value: str) -> str:
    """A CEL string."""
    return json.dumps(value)


def texts(values: tuple[str, ...]) -> str:
    """A CEL list of strings."""
    return json.dumps(list(values))
