"""What one request has changed so far: the events it wrote, kept beside it for the audit log."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Part:
    """What a request did to one of several things, each in its own transaction. status: of a refusal; 0: done."""

    team: str
    name: str
    status: int = 0
    events: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class AuditContext:
    """What a request did: the parts it has, and the events of none of them."""

    parts: list[Part] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


_open: ContextVar[AuditContext | Part | None] = ContextVar("audit context", default=None)


@contextmanager
def followed() -> Iterator[AuditContext]:
    """Collect what is done in this context until the block ends."""
    found = AuditContext()
    token = _open.set(found)
    try:
        yield found
    finally:
        _open.reset(token)


@contextmanager
def part(team: str, name: str) -> Iterator[Part]:
    """Collect what is done to one of several things apart from the others; the audit log has a row for each."""
    around, found = _open.get(), Part(team, name)
    if isinstance(around, AuditContext):
        around.parts.append(found)
    token = _open.set(found)
    try:
        yield found
    except BaseException:
        found.status = 500
        raise
    finally:
        _open.reset(token)


def note(entries: Sequence[Any]) -> None:
    """Remember events that were written, if there is a follower."""
    found = _open.get()
    if found is not None:
        found.events.extend(entries)
