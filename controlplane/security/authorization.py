"""The written authorization matrix: the lines of authorization.txt, and the addresses of the URLconf they are about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.urls import URLPattern, get_resolver

TABLE = Path(__file__).with_suffix(".txt")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WHO = (
    "anyone", "signed-in", "self", "read", "submit", "act", "change", "manage", "admins", "platform", "console",
)  # fmt: skip
OF = ("-", "team", "user")
UNKNOWN = r"api/^(?P<rest>[\s\S]*)$"  # answers 404 to whatever is no address


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may call some methods of an address, or of all that begin alike (`admin/*`)."""

    who: str
    of: str
    methods: tuple[str, ...]
    address: str

    def is_about(self, address: str) -> bool:
        """Whether the address is this one."""
        return address.startswith(self.address[:-1]) if self.address.endswith("*") else address == self.address


@dataclass(frozen=True, slots=True)
class Route:
    """An address of the URLconf: its parameters as in Django's patterns, and its view."""

    address: str
    view: Any


def rules(text: str | None = None) -> tuple[Rule, ...]:
    """The table. Raises ValueError for a line that says nothing."""
    lines = (TABLE.read_text() if text is None else text).splitlines()
    return tuple(_rule(line) for line in lines if line.strip() and not line.startswith("#"))


def routes(patterns: Sequence[Any] | None = None, before: str = "") -> Iterator[Route]:
    """Every address, as the URLconf has it; the pages' root is `/`."""
    for one in get_resolver().url_patterns if patterns is None else patterns:
        address = before + str(one.pattern)
        if isinstance(one, URLPattern):
            if address != UNKNOWN:
                yield Route(address or "/", one.callback)
        else:
            yield from routes(one.url_patterns, address)


def without_a_line() -> tuple[str, ...]:
    """Addresses that the table says nothing about."""
    known = rules()
    return tuple(route.address for route in routes() if not any(rule.is_about(route.address) for rule in known))


def without_an_address() -> tuple[str, ...]:
    """Lines about addresses that there are not."""
    known = [route.address for route in routes()]
    return tuple(rule.address for rule in rules() if not any(map(rule.is_about, known)))


def _rule(line: str) -> Rule:
    parts = line.split()
    if len(parts) != 4 or parts[0] not in WHO or parts[1] not in OF:
        raise ValueError(f"authorization.txt: {line!r} is not WHO OF METHODS ADDRESS.")
    methods = tuple(parts[2].split(","))
    if not set(methods) <= set(METHODS):
        raise ValueError(f"authorization.txt: {line!r} names a method that there is not.")
    return Rule(parts[0], parts[1], methods, parts[3])
