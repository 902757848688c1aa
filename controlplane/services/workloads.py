"""What people do with workloads. Each function is one transaction, and doing it twice does it once."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from controlplane.models import PriorityClass, Workload
from controlplane.services import clock, dependencies
from controlplane.services.errors import Refused
from controlplane.services.outcomes import REQUEUE, settle
from controlplane.services.rows import BOUND, RESERVED, Row
from controlplane.services.submission import Submission, submit, submit_all, submit_many
from controlplane.services.transitions import Batch
from controlplane.spec import amended
from scheduler.workload import ACTIVE, ENDED, LEAVING, Phase

__all__ = [
    "Submission", "delete", "patch", "requeue", "resume", "stop", "submit", "submit_all", "submit_many", "suspend",
]  # fmt: skip


@transaction.atomic
def stop(*, workload: Workload, actor: str) -> None:
    """End a workload: at once if nothing of it runs, else when its pods are gone. Nothing happens if it has ended."""
    batch, row = _locked(workload, actor)
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


def delete(*, workload: Workload, actor: str) -> None:
    """The same as stop: what was done stays in the log and in the accounts."""
    stop(workload=workload, actor=actor)


@transaction.atomic
def suspend(*, workload: Workload, actor: str, reason: str = "Suspended", message: str = "") -> None:
    """Take it off the machines (its checkpoint is kept) or out of the queue, until it is resumed."""
    batch, row = _locked(workload, actor)
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
        _refuse(row, "suspended")
    batch.write()


@transaction.atomic
def resume(*, workload: Workload, actor: str) -> None:
    """Queue a held or suspended workload again, behind those that waited meanwhile."""
    batch, row = _locked(workload, actor)
    if row.phase in (Phase.HELD, Phase.SUSPENDED):
        batch.change(row, queued_at=batch.at, reason="", message="", intent="", started_at=None, moving=False)
        batch.move(row, Phase.QUEUED, kind="Resumed", message=f"Resumed by {actor}.")
        batch.write()
    elif row.phase in ENDED or row.phase in LEAVING:
        _refuse(row, "resumed")


@transaction.atomic
def requeue(*, workload: Workload, actor: str) -> None:
    """End this attempt and queue the workload again; one that waits stays where it is."""
    batch, row = _locked(workload, actor)
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
        _refuse(row, "requeued")
    batch.write()


@transaction.atomic
def patch(*, workload: Workload, changes: Mapping[str, Any], version: int | None, actor: str) -> None:
    """Change what may be changed after submission; `changes` as in a job file (spec.amended). Raises SpecError.

    `version` is the one the caller saw: Refused 412 if it is not the current one. Workers change only while nothing of
    the workload runs; a service's bounds at any time, and its wanted number is kept between them.
    """
    batch, row = _locked(workload, actor)
    if version is not None and version != row.version:
        message = f"{row.name} has changed: its version is {row.version}, not {version}. Read it again."
        raise Refused(412, "VersionMismatch", "version", message)
    if row.phase in ENDED:
        _refuse(row, "changed")
    if not changes:
        return
    spec = amended(Workload.objects.values_list("spec", flat=True).get(pk=row.uid), changes)
    if "workers" in changes and row.phase not in (Phase.QUEUED, Phase.HELD, Phase.SUSPENDED):
        message = f"{row.name} is {row.phase}; its workers can be changed only while it waits. Suspend it first."
        raise Refused(409, "NotWaiting", "workers", message)
    columns = _priority(spec.priority_class) if "priority_class" in changes else {}
    Workload.objects.filter(pk=row.uid).update(
        spec=spec.document(), expected_seconds=spec.expected_duration, max_seconds=spec.max_duration, **columns
    )
    gang = spec.workers
    count = min(max(row.workers, gang.min), gang.max) if row.is_service else gang.count
    batch.bump(row, workers=count, workers_min=gang.min, workers_max=gang.max)
    batch.note(row, "Patched", data={"changes": dict(changes)})
    batch.write()


# --- steps ------------------------------------------------------------------------------------


def _locked(workload: Workload, actor: str) -> tuple[Batch, Row]:
    batch = Batch(clock.now(), actor)
    batch.lock([workload.pk], ahead=lambda: dependencies.dependents([workload.pk]))
    return batch, batch.rows[str(workload.pk)]


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


def _priority(name: str) -> dict[str, Any]:
    wanted = PriorityClass.objects.filter(name=name) if name else PriorityClass.objects.filter(is_default=True)
    found = wanted.first()
    if found is None:
        message = f"There is no priority class {name}. Name one that exists."
        raise Refused(422, "UnknownPriorityClass", "priority_class", message)
    return {"priority_class": found, "priority": found.value, "preemptible": found.preemptible}


def _refuse(row: Row, participle: str) -> None:
    raise Refused(409, "WrongPhase", "phase", f"{row.name} is {row.phase}; it cannot be {participle}.")
