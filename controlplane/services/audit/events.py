"""The log of all that happened: rows are only ever added, and a trigger refuses anything else."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from controlplane.models import Event, bulk
from controlplane.models.statements import database_clock
from controlplane.services.audit import context
from controlplane.services.scheduling import clock
from scheduler.model.mention import clipped

_NAMES = (
    "cluster_at", "actor", "kind", "team", "workload", "name", "phase", "reason", "message", "cycle", "data",
)  # fmt: skip
MESSAGE_LENGTH = 400


class Entry(NamedTuple):
    """One event to be written; the database adds its own clock."""

    cluster_at: float
    actor: str
    kind: str
    team: str = ""
    workload: UUID | None = None
    name: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    cycle: int | None = None
    data: Mapping[str, Any] = {}


def write(entries: Sequence[Entry]) -> None:
    """Add these events in their order."""
    rows = [
        e if len(e.message) <= MESSAGE_LENGTH else e._replace(message=clipped(e.message, MESSAGE_LENGTH))
        for e in entries
    ]
    bulk.insert(Event, _NAMES, rows, at=database_clock())
    context.note(rows)


def record(*, kind: str, actor: str, at: float | None = None, **columns: Any) -> None:
    """Add one event about something that is not a workload's transition: a quota, a team, a login."""
    write([Entry(cluster_at=clock.now() if at is None else at, actor=actor, kind=kind, **columns)])
