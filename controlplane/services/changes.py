"""Hints for the scheduler's snapshot: what to read again."""

from collections.abc import Iterable
from uuid import UUID

from controlplane.models import Change, bulk


def are_there() -> bool:
    """Whether the schedule loop has anything new to look at."""
    return bool(bulk.select(Change, ("id",), "LIMIT 1"))


def touch(uids: Iterable[UUID] | None = None) -> None:
    """Say that these workloads changed; without any: that nodes, teams or quotas did."""
    bulk.insert(Change, ("workload",), [(uid,) for uid in uids] if uids is not None else [(None,)])
