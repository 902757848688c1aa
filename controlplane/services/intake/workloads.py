"""Workloads of Kubernetes objects: submitted under the object's uid, so once; changed and stopped as the object says.

Each function is one transaction that checks the loop's lease first, so a paused process that comes back writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from controlplane.jobspec.spec import Spec
from controlplane.kubeobjects.names import WORKLOAD_RESOURCE
from controlplane.models import User, Workload
from controlplane.services.intake.ownership import Hand
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import workloads
from controlplane.services.workloads.submission import Submission, submit_all
from scheduler.model.workload import Phase

ACTOR = "loop:intake"
RESTS = (Phase.HELD, Phase.SUSPENDED, Phase.SUSPENDING)
BY_HAND = "Suspended"  # the reason of what was suspended on purpose, not parked


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object that has no workload yet."""

    uid: UUID
    spec: Spec
    user: User
    is_suspended: bool


@transaction.atomic
def submit(*, wanted: Sequence[Wanted], lease: HeldLease) -> None:
    """Queue these, all or none; at rest where the object says so. Raises Refused."""
    lease.check()
    made = submit_all(
        [
            Submission(one.spec, one.user, one.user.get_username(), uid=one.uid, managed_by=WORKLOAD_RESOURCE)
            for one in wanted
        ]
    )
    for one, workload in zip(wanted, made, strict=True):
        if one.is_suspended:
            workloads.suspend(workload=workload, actor=one.user.get_username(), hand=Hand.OBJECT)


@transaction.atomic
def follow(*, workload: Workload, changes: Mapping[str, Any], is_suspended: bool, actor: str, lease: HeldLease) -> None:
    """Make a live workload what its object says. Raises Refused and SpecError."""
    lease.check()
    if is_suspended and workload.phase not in RESTS:
        workloads.suspend(workload=workload, actor=actor, hand=Hand.OBJECT)
    if changes:
        workloads.patch(workload=workload, changes=changes, version=None, actor=actor, hand=Hand.OBJECT)
    if not is_suspended and workload.phase in (Phase.HELD, Phase.SUSPENDED) and workload.reason == BY_HAND:
        workloads.resume(workload=workload, actor=actor, hand=Hand.OBJECT)


@transaction.atomic
def end(*, workload: Workload, lease: HeldLease) -> None:
    """Stop a workload whose object is gone."""
    lease.check()
    workloads.stop(workload=workload, actor=ACTOR, hand=Hand.OBJECT)
