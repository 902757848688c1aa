"""What people do with workloads; controlplane/lifecycle/requests.py says what it means.

Each function is one transaction, and doing it twice does it once.

`version` is the one that the caller saw; Refused 412 if there is a newer one. None stands for any. `hand` says by whose
hand it is done: Refused 409 where the workload belongs to a Kubernetes object (services/intake/ownership.py).
"""

from django.db import transaction

from controlplane.lifecycle import requests
from controlplane.models import Workload
from controlplane.services.intake import ownership
from controlplane.services.intake.ownership import Hand
from controlplane.services.scheduling.revising import undo
from controlplane.services.workloads.amending import patch
from controlplane.services.workloads.submission import Submission, submit, submit_all, submit_many
from controlplane.services.workloads.transitions import locked, refuse

__all__ = [
    "Submission", "delete", "patch", "requeue", "resume", "stop", "submit", "submit_all", "submit_many", "suspend",
    "undo",
]  # fmt: skip


@transaction.atomic
def stop(*, workload: Workload, actor: str, version: int | None = None, hand: Hand = Hand.PERSON) -> None:
    """End a workload: at once if nothing of it runs, else when its pods are gone. Nothing happens if it has ended."""
    ownership.require(workload, "stop", hand)
    batch, row = locked(workload, actor, version)
    requests.stop(batch, row, message=f"Stopped by {actor}.")
    batch.write()


def delete(*, workload: Workload, actor: str, version: int | None = None, hand: Hand = Hand.PERSON) -> None:
    """The same as stop: what was done stays in the log and in the accounts."""
    stop(workload=workload, actor=actor, version=version, hand=hand)


@transaction.atomic
def suspend(
    *,
    workload: Workload,
    actor: str,
    reason: str = "Suspended",
    message: str = "",
    version: int | None = None,
    hand: Hand = Hand.PERSON,
) -> None:
    """Take it off the machines (its checkpoint is kept) or out of the queue, until it is resumed."""
    ownership.require(workload, "suspend", hand)
    batch, row = locked(workload, actor, version)
    if not requests.suspend(batch, row, reason=reason, message=message or f"Suspended by {actor}."):
        refuse(row, "suspended")
    batch.write()


@transaction.atomic
def resume(*, workload: Workload, actor: str, version: int | None = None, hand: Hand = Hand.PERSON) -> None:
    """Queue a held or suspended workload again, behind those that waited meanwhile."""
    ownership.require(workload, "resume", hand)
    batch, row = locked(workload, actor, version)
    if not requests.resume(batch, row, message=f"Resumed by {actor}."):
        refuse(row, "resumed")
    batch.write()


@transaction.atomic
def requeue(*, workload: Workload, actor: str, version: int | None = None, hand: Hand = Hand.PERSON) -> None:
    """End this attempt and queue the workload again; one that waits stays where it is."""
    ownership.require(workload, "requeue", hand)
    batch, row = locked(workload, actor, version)
    if not requests.requeue(batch, row, message=f"Requeued by {actor}."):
        refuse(row, "requeued")
    batch.write()
