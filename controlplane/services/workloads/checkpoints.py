"""What training programs say of their checkpoints: the later the newest one, the cheaper it is to make them leave.

A program that says nothing is taken to have saved nothing since it started. What is known never goes back: a checkpoint
that was safe once is what the next attempt begins with.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction

from controlplane.cluster.port import Saved
from controlplane.domain.ids import uuids
from controlplane.models import Workload, bulk
from controlplane.services.scheduling import changes
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.workload import ACTIVE, LEAVING, Kind

_RUNNING = {"phase__in": ACTIVE | LEAVING, "kind": Kind.TRAINING}


def watched() -> tuple[str, ...]:
    """The trainings that have pods: the ones to ask metrics for."""
    return tuple(str(uid) for (uid,) in bulk.select(Workload, ("uid",), _RUNNING, order=("uid",)))


@transaction.atomic
def note(*, found: Iterable[Saved], lease: HeldLease) -> int:
    """Keep what is newer than what is known of a current attempt; tell of how many trainings. Raises LeaseLost.

    The row's version stays, as an observation of time fences off no edit; the scheduler reads the row again.
    """
    said = {saved.workload: saved for saved in found}
    if not said:
        return 0
    lease.check()
    newer: list[tuple[float | None, float | None, UUID, int]] = []
    for part in bulk.chunks(sorted(uuids(said))):
        columns = ("uid", "attempt", "checkpointed_at", "progress")
        for uid, attempt, at, progress in bulk.select(Workload, columns, {"uid__among": part}):
            saved = said[str(uid)]
            known = (_later(at, saved.at), _later(progress, saved.progress))
            if saved.attempt == attempt and known != (at, progress):
                newer.append((*known, uid, attempt))
    bulk.update(Workload, ("checkpointed_at", "progress"), ("uid", "attempt"), newer, in_order=True)
    changes.touch(uid for _, _, uid, _ in newer)
    return len(newer)


def _later(known: float | None, said: float | None) -> float | None:
    return max((value for value in (known, said) if value is not None), default=None)
