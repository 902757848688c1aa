"""Workloads and placements as the writing services hold them in memory: locked, changed, then written in bulk."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple
from uuid import UUID

from controlplane.lifecycle.state import Seat, State
from controlplane.models import Placement, PlacementState, Workload, bulk
from controlplane.models.bulk import chunks
from scheduler.model.workload import Phase


@dataclass(slots=True)
class Row(State):
    """The columns of a workload that services change or decide by. Changed only through a Batch."""

    uid: UUID
    team_id: int
    workers_max: int
    workers_cap: int | None
    workers_planned: int | None
    priority: int
    submitted_at: float
    cell: str
    team: str = ""  # its name


COLUMNS = tuple(one.name for one in fields(Row) if one.name not in ("id", "seen", "changed", "team"))
_PHASE, _UID = COLUMNS.index("phase"), COLUMNS.index("uid")


class Told(NamedTuple):
    """What a reason for waiting is written by: of those that only are told something, nothing else is read."""

    uid: UUID
    name: str
    phase: Phase
    version: int
    reason: str
    cell: str
    team: str

    @property
    def id(self) -> str:
        """The uid as the cores write it."""
        return str(self.uid)


_TOLD = (*Told._fields[:-1], "team__name")
_SEAT = (
    "id", "workload_id", "attempt", "rank", "node", "milli", "state", "pod_phase", "bound_at", "revision", "asleep_at",
    "lender", "weights", "weights_at",
)  # fmt: skip


def lock(uids: Iterable[UUID]) -> dict[str, Row]:
    """Read these workloads and keep others from writing them until the transaction ends; always in one order."""
    rows: dict[str, Row] = {}
    for part in chunks(sorted(uids)):
        found = bulk.select(Workload, (*COLUMNS, "team__name"), {"uid__among": part}, order=("uid",), locks=True)
        for *values, team in found:
            row = Row(str(values[_UID]), *values)
            row.phase = Phase(values[_PHASE])
            row.seen = row.version
            row.team = team
            rows[row.id] = row
    return rows


def keep(uids: Iterable[UUID]) -> None:
    """Keep others from writing these workloads until the transaction ends, in the same order."""
    for part in chunks(sorted(uids)):
        bulk.select(Workload, ("uid",), {"uid__among": part}, order=("uid",), locks=True)


def told(uids: Iterable[UUID]) -> dict[str, Told]:
    """What these workloads were told last, by id. Locked by the caller (Batch.lock, ahead)."""
    found: dict[str, Told] = {}
    for part in chunks(uids):
        for uid, name, phase, *rest in bulk.select(Workload, _TOLD, {"uid__among": part}):
            found[str(uid)] = Told(uid, name, Phase(phase), *rest)
    return found


def seats(uids: Iterable[UUID]) -> dict[str, list[Seat]]:
    """The live placements of these workloads, by rank."""
    found: dict[str, list[Seat]] = {}
    for part in chunks(uids):
        live = {"workload_id__among": part, "state__not": PlacementState.RELEASED}
        for pk, workload, *rest in bulk.select(Placement, _SEAT, live, order=("rank",)):
            seat = Seat(pk, str(workload), *rest)
            found.setdefault(seat.workload, []).append(seat)
    return found
