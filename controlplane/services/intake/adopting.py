"""Kubernetes' own objects as rows: each queued object is one workload with the same uid, and follows it.

An object is read as a whole each time, so what was missed is made up for: one that has ended, is gone, or has other
replicas than its row says.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import transaction

from controlplane.adopted import jobfiles, status
from controlplane.adopted.kinds import DEPLOYMENT, RESOURCES
from controlplane.adopted.port import Look, Owner
from controlplane.jobspec.spec import Spec, SpecError, parse
from controlplane.lifecycle import owned, requests
from controlplane.lifecycle.changes import Changes
from controlplane.models import Team, User, Workload
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.workloads import dependencies
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.submission import Submission, submit_all
from controlplane.services.workloads.transitions import Batch
from scheduler.model.workload import ACTIVE, ENDED, LEAVING, Phase

ACTOR = "loop:adopt"
GONE = "OwnerGone"

Change = Callable[[Changes, Row], None]


@dataclass(frozen=True, slots=True)
class Known:
    """What the row of an object says."""

    phase: Phase
    workers: int
    reason: str
    message: str


def known(look: Look) -> dict[str, Known]:
    """The rows of these objects, and of all others that have not ended."""
    columns = ("uid", "phase", "workers", "reason", "message")
    live = Workload.objects.filter(managed_by__in=RESOURCES).exclude(phase__in=[phase.value for phase in ENDED])
    theirs = Workload.objects.filter(uid__among=[UUID(owner.uid) for owner in look.owners])
    rows = {*live.values_list(*columns), *theirs.values_list(*columns)}
    return {str(uid): Known(Phase(phase), *rest) for uid, phase, *rest in rows}


def spec_of(owner: Owner) -> Spec:
    """The job file of an object. Raises UnfitError or SpecError."""
    return parse(jobfiles.job_file(owner))


def submit(owner: Owner, spec: Spec, *, user: User, at: float, lease: HeldLease) -> None:
    """Queue an object. Raises Refused."""
    resource = f"{owner.kind.plural}.{owner.kind.group}"
    with transaction.atomic():
        lease.check()
        one = Submission(
            spec,
            user,
            user.get_username(),
            at,
            jobfiles.beside(owner),
            UUID(owner.uid),
            message=f"Made by kubectl as {owner.label}.",
            managed_by=resource,
        )
        submit_all([one])


def follow(look: Look, rows: Mapping[str, Known], pods: Callable[[Owner], int], *, at: float, lease: HeldLease) -> int:
    """Bring rows to what their objects say; tell how many had to change."""
    wanted = dict(_wanted(look, rows, pods))
    if not wanted:
        return 0
    with transaction.atomic():
        lease.check()
        batch = Batch(at, ACTOR)
        uids = [UUID(uid) for uid in wanted]
        batch.lock(uids, ahead=lambda: dependencies.dependents(uids))
        for uid, change in sorted(wanted.items()):
            if uid in batch.rows:
                change(batch, batch.rows[uid])
        batch.write()
    return len(wanted)


def _wanted(look: Look, rows: Mapping[str, Known], pods: Callable[[Owner], int]) -> Iterable[tuple[str, Change]]:
    there = {owner.uid: owner for owner in look.owners}
    for uid, row in rows.items():
        owner = there.get(uid)
        if row.phase in ENDED or uid in look.left:
            continue
        if owner is None or owner.is_leaving:
            if row.phase != Phase.STOPPING:
                yield uid, _stop
        elif (end := status.end_of(owner)) is not None:
            if row.phase not in LEAVING:
                said = partial(owned.finish, has_succeeded=end.has_succeeded, reason=end.reason[:40])
                yield uid, partial(said, message=_ended(owner, end))
        elif owner.kind is DEPLOYMENT and (replicas := _replicas(owner, row, pods)) is not None:
            yield uid, partial(owned.scale, replicas=replicas)


def _stop(changes: Changes, row: Row) -> None:
    requests.stop(changes, row, reason=GONE, message="Its Kubernetes object is gone, or is not queued any more.")


def _ended(owner: Owner, end: status.End) -> str:
    return f"{owner.label} has {'succeeded' if end.has_succeeded else 'failed'}: {end.message or end.reason}"[:400]


def _replicas(owner: Owner, row: Known, pods: Callable[[Owner], int]) -> int | None:
    """How many pods a Deployment is to have, one that is replaced while it runs included; None: what the row says."""
    replicas = status.replicas(owner)
    is_parked = row.phase in (Phase.HELD, Phase.SUSPENDED, Phase.SUSPENDING)
    if replicas == 0:
        return None if is_parked else 0
    wanted = max(replicas, min(pods(owner), 2 * replicas))
    return wanted if wanted != row.workers or (is_parked and row.reason == owned.NO_REPLICAS) else None


def count_others(look: Look, *, lease: HeldLease) -> None:
    """Note what else runs in the namespaces of teams, where it has changed."""
    stored = Team.objects.values_list("name", "other_pods", "other_gpus")
    changed = [name for name, *counts in stored if tuple(counts) != look.others.get(name, (0, 0))]
    if not changed:
        return
    with transaction.atomic():
        lease.check()
        for name in changed:
            pods, gpus = look.others.get(name, (0, 0))
            Team.objects.filter(name=name).update(other_pods=pods, other_gpus=gpus)


def held_back(look: Look, rows: Mapping[str, Known]) -> list[Owner]:
    """Objects that may make pods and must not, as their workload has no places: what was missed is made up for."""
    return [
        owner
        for owner in look.owners
        if owner.kind.suspend and not status.is_suspended(owner) and status.end_of(owner) is None
        and not owner.is_leaving and owner.uid in rows and rows[owner.uid].phase not in ACTIVE | LEAVING
    ]  # fmt: skip


def refusal(error: SpecError | jobfiles.UnfitError) -> str:
    """Why an object is not queued, for an event on it."""
    return f"Weft does not queue it: {error}"
