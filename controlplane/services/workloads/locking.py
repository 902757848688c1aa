"""A workload's row locked for a change by a person, and the refusals that all such changes share."""

from typing import NoReturn

from controlplane.models import Workload
from controlplane.services.errors import Refused
from controlplane.services.scheduling import clock
from controlplane.services.workloads import dependencies
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch


def locked(workload: Workload, actor: str, version: int | None) -> tuple[Batch, Row]:
    """The workload's row, locked with what it may come to, and the batch that will write it.

    Refused 412 if it is not of the version that the caller saw (None: any).
    """
    batch = Batch(clock.now(), actor)
    batch.lock([workload.pk], ahead=lambda: dependencies.dependents([workload.pk]))
    row = batch.rows[str(workload.pk)]
    if version is not None and version != row.version:
        message = f"{row.name} has changed: its version is {row.version}, not {version}. Read it again."
        raise Refused(412, "VersionMismatch", "version", message)
    return batch, row


def refuse(row: Row, participle: str) -> NoReturn:
    """Say that the phase does not allow it."""
    raise Refused(409, "WrongPhase", "phase", f"{row.name} is {row.phase}; it cannot be {participle}.")
