"""What people do with workloads. Each function is one transaction, and doing it twice does it once.

`version` is the one that the caller saw; Refused 412 if there is a newer one. None stands for any.
"""

from django.db import transaction

from controlplane.models import Workload
from controlplane.services.amending import locked, patch, refuse
from controlplane.services.outcomes import REQUEUE, settle
from controlplane.services.rows import BOUND, RESERVED, Row
from controlplane.services.submission import Submission, submit, submit_all, submit_many
from controlplane.services.transitions import Batch
from scheduler.workload import ACTIVE, ENDED, LEAVING, Phase

__all__ = [
    "Submission", "delete", "patch", "requeue", "resume", "stop", "submit", "submit_all", "submit_many", "suspend",
]  # fmt: skip


@transaction.atomic
def stop(*, workload: Workload, actor: str, version: int | None = None) -> None:
    """End a workload: at once if nothing of it runs, else when its pods are gone. Nothing happens if it has ended."""
    batch, row = locked(workload, actor, version)
    if row.phase in ENDED or row.phase == Phase.STOPPING:
        return
    message = f"Stopped by {actor}."
    if row.phase in ACTIVE or row.phase in LEAVING:
        _leave(batch, row, Phase.STOPPING, "", "Stopped", message)
    else:
        _give_up_places(batch, row)
        batch.change(row, ended_at=batch.at)
        batch.move(row, Phase.STOPPED, reason="Stopped", message=message)
    batch.write()


def delete(*, workload: Workload, actor: str, version: int | None = None) -> None:
    """The same as stop: what was done stays in the log and in the accounts."""
    stop(workload=workload, actor=actor, version=version)


@transaction.atomic
def suspend(
    *, workload: Workload, actor: str, reason: str = "Suspended", message: str = "", version: int | None = None
) -> None:
    """Take it off the machines (its checkpoint is kept) or out of the queue, until it is resumed."""
    batch, row = locked(workload, actor, version)
    message = message or f"Suspended by {actor}."
    if row.phase in (Phase.HELD, Phase.SUSPENDED, Phase.SUSPENDING):
        return
    if row.phase in ACTIVE and not row.intent:
        _leave(batch, row, Phase.SUSPENDING, "suspend", reason, message)
    elif row.phase in (Phase.QUEUED, Phase.RESERVED):
        _give_up_places(batch, row)
        batch.change(row, reason=reason, message=message, reason_at=batch.at, reserved_after=[])
        batch.move(row, Phase.HELD, reason=reason, message=message)
    else:
        refuse(row, "suspended")
    batch.write()


@transaction.atomic
def resume(*, workload: Workload, actor: str, version: int | None = None) -> None:
    """Queue a held or suspended workload again, behind those that waited meanwhile."""
    batch, row = locked(workload, actor, version)
    if row.phase in (Phase.HELD, Phase.SUSPENDED):
        batch.change(row, queued_at=batch.at, reason="", message="", intent="", started_at=None, moving=False)
        batch.move(row, Phase.QUEUED, kind="Resumed", message=f"Resumed by {actor}.")
        batch.write()
    elif row.phase in ENDED or row.phase in LEAVING:
        refuse(row, "resumed")


@transaction.atomic
def requeue(*, workload: Workload, actor: str, version: int | None = None) -> None:
    """End this attempt and queue the workload again; one that waits stays where it is."""
    batch, row = locked(workload, actor, version)
    message = f"Requeued by {actor}."
    if row.phase in ACTIVE and not row.intent:
        _leave(batch, row, Phase.SUSPENDING, REQUEUE, "Requeued", message)
    elif row.phase == Phase.RESERVED:
        _give_up_places(batch, row)
        batch.change(row, reserved_after=[])
        batch.move(row, Phase.QUEUED, kind="Requeued", reason="Requeued", message=message)
    elif row.phase == Phase.QUEUED:
        batch.bump(row, not_before=None)
        batch.note(row, "Requeued", message=message)
    elif row.phase not in ACTIVE:
        refuse(row, "requeued")
    batch.write()


# --- steps ------------------------------------------------------------------------------------


def _leave(batch: Batch, row: Row, to: Phase, intent: str, reason: str, message: str) -> None:
    """Have its workers stopped; where there are none, it is there at once."""
    batch.change(row, intent=intent, reason=reason, message=message)
    batch.move(row, to, reason=reason, message=message)
    _give_up_places(batch, row)
    batch.leave(row, [seat for seat in batch.live(row) if seat.state == BOUND])
    settle(batch, row, ())


def _give_up_places(batch: Batch, row: Row) -> None:
    for seat in batch.live(row):
        if seat.state == RESERVED:
            batch.release(row, seat)
