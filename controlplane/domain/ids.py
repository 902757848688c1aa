"""Ids of workloads as text and as keys."""

from collections.abc import Iterable
from uuid import UUID


def uuids(ids: Iterable[str]) -> list[UUID]:
    """Ids of the cores as keys; what is no uid (a stranger's pod) is left out."""
    found = []
    for text in ids:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
