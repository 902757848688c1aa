"""What one request has changed so far: the events it wrote, kept beside it for the audit log."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_open: ContextVar[list[Any] | None] = ContextVar("trail", default=None)


@contextmanager
def followed() -> Iterator[list[Any]]:
    """Collect the events that are written in this context until the block ends."""
    found: list[Any] = []
    token = _open.set(found)
    try:
        yield found
    finally:
        _open.reset(token)


def note(entries: Sequence[Any]) -> None:
    """Remember events that were written; for whoever follows, else for nobody."""
    found = _open.get()
    if found is not None:
        found.extend(entries)
