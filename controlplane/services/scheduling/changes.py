"""Hints for the scheduler's snapshot: what to read again."""

from collections.abc import Iterable
from uuid import UUID

from controlplane.models import Change, bulk


def are_there() -> bool:
    """Whether the schedule loop has anything new to look at."""
    return bool(bulk.select(Change, ("id",), limit=1))


def touch(uids: Iterable[UUID] | None = None) -> None:
    """Say that these workloads changed; without any: that nodes, teams or quotas did."""
    bulk.insert(Change, ("workload",), [(uid,) for uid in uids] if uids is not None else [(None,)])


def hints() -> list[tuple[int, UUID | None]]:
    """All hints there are, as (number, workload): which workloads changed, None for nodes, teams or quotas."""
    return [(number, uid) for number, uid in bulk.select(Change, ("id", "workload"))]


def forget(seen: Iterable[tuple[int, UUID | None]]) -> None:
    """Delete hints that were followed, in the transaction that read the rows again."""
    bulk.delete(Change, "id", [number for number, _ in seen])
