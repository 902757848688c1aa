"""Hints for the schedulers' snapshots: what to read again, and whose decider is to."""

from collections.abc import Iterable
from uuid import UUID

from controlplane.models import Change, Workload, bulk
from controlplane.services.scheduling import inforce
from scheduler.model.cell import names

Hint = tuple[int, UUID | None]


def are_there(cell: str | None = None) -> bool:
    """Whether there is anything new to look at; for the decider of one cell only, if given."""
    return bool(bulk.select(Change, ("id",), _of(cell), limit=1))


def touch(uids: Iterable[UUID] | None = None) -> None:
    """Say that these workloads changed; without any: that nodes, teams or quotas did, which is news for each cell."""
    if uids is None:
        touch_frames(names(inforce.now().cells))
        return
    for part in bulk.chunks(uids):
        touch_these(bulk.select(Workload, ("uid", "cell"), {"uid__among": part}))


def touch_these(of: Iterable[tuple[UUID, str]]) -> None:
    """Say that these workloads changed, each with its cell as its locked row has it."""
    bulk.insert(Change, ("workload", "cell"), [tuple(one) for one in of])


def touch_frames(cells: Iterable[str]) -> None:
    """Say to these cells that nodes, teams or quotas changed."""
    bulk.insert(Change, ("workload", "cell"), [(None, cell) for cell in cells])


def hints(cell: str | None = None) -> list[Hint]:
    """All hints there are, as (number, workload): which workloads changed, None for nodes, teams or quotas.

    cell: only those for its decider; without it there is one decider, for whatever cell they were written.
    """
    return [(number, uid) for number, uid in bulk.select(Change, ("id", "workload"), _of(cell))]


def pass_on(uids: Iterable[UUID], cell: str) -> None:
    """Hint at those of these workloads that are in another cell by now, in the transaction that deletes their hints."""
    for part in bulk.chunks(uids):
        touch_these(bulk.select(Workload, ("uid", "cell"), {"uid__among": part, "cell__not": cell}))


def forget(seen: Iterable[Hint]) -> None:
    """Delete hints that were followed, in the transaction that read the rows again."""
    bulk.delete(Change, "id", [number for number, _ in seen])


def _of(cell: str | None) -> dict[str, str]:
    return {} if cell is None else {"cell": cell}
