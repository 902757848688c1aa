"""What a 404 says: the thing of the address that does not exist or that its reader may not see; both read the same."""

import re
from typing import Any

from controlplane.jobspec.shapes import shown

_PART = re.compile(r"([\w-]+)/<(\w+):(\w+)>")  # of a route: `nodes/<str:name>`
_NOUNS = {
    "deliveries": "delivery",
    "inferences": "inference service",
    "notification-rules": "notification subscription",
    "policies": "policy version",
    "simulations": "what-if",
    "views": "saved view",
}
# Names that may tell something where they are repeated: of these a 404 says only what they are.
_UNSAID = frozenset({"teams", "members"})
NO_TEAM = "There is no such team, or you may not see it."
NOTHING = "There is nothing at this address. Check the address."


def sentence(route: str, values: dict[str, Any]) -> str:
    """`There is no node nope, or you may not see it.`: what a route stands for, with the values of its parameters.

    Uids and the names of teams and people are not repeated: an answer holds none that its reader may not see, even one
    that the request named.
    """
    found = _PART.findall(route)
    parts = [
        _thing(folder, kind, values[name], "such" if number == len(found) else "this")
        for number, (folder, kind, name) in enumerate(found, 1)
    ]
    return f"There is no {' of '.join(reversed(parts))}, or you may not see it." if parts else NOTHING


def _thing(folder: str, kind: str, value: object, word: str) -> str:
    noun = _NOUNS.get(folder, folder.replace("-", " ").removesuffix("s"))
    if folder in _UNSAID:
        return f"{word} {noun}"
    return f"{noun} with this uid" if kind == "uuid" else f"{noun} {shown(str(value))[1:-1]}"
