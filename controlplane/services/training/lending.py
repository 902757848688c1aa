"""What trainings saw of their steps and of their starts, kept for the next ones that are alike.

Steps are lent to the fit of a model, starts to what a restart is taken to cost (autoscaler/reallocate/restarts.py).

Alike are trainings of one team with the same image, command and arguments, GPUs of a worker and roles, on the same GPU
model, whose job files all name a batch or all name none, as that of the latter is not known; a job file does not say
from which template it was made, and names, variables and tokens differ between runs.
Bounded: the newest few of each kind, and none that is older than 90 days. docs/reallocation.md.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Min, QuerySet

from autoscaler.reallocate.rows import allocation_of
from autoscaler.throughput.observation import Observation
from controlplane.models import Event, Node, Placement, StepObservation, TrainingStart, Workload
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.training.diagnoses import Looked
from scheduler.model.workload import Phase

LEND = 12  # observations of others that one fit takes, the newest
KEPT = 40  # of one kind of training
KEPT_SECONDS = 90 * 86_400.0
MOST = 20_000  # in all


def key(workload: Workload, node: str) -> str:
    """Equal for trainings that are alike enough to learn from one another's steps. One query."""
    model = Node.objects.filter(name=node).values_list("gpu_model", flat=True).first() or ""
    spec = workload.spec
    program = [spec.get("image"), spec.get("command"), spec.get("args")]
    roles = [[name, ask] for name, _, ask in workload.roles]  # how many servers there are is part of what is lent
    asked = [workload.gpus, roles, model, *(["batch"] if workload.batch is not None else [])]
    return sha256(json.dumps([program, asked], sort_keys=True).encode()).hexdigest()


def note(*, workload: Workload, node: str, at: float, seen: Sequence[Observation]) -> None:
    """Keep what it saw, one row for each allocation, the newest; not with a worker that was slow."""
    if not seen:
        return
    kind = key(workload, node)
    for one in seen:
        values = {"step": one.step, "exchange": one.exchange, "wait": one.wait, "error": one.error, "at": at}
        shape = asdict(one.allocation) | {"off": []}
        StepObservation.objects.update_or_create(
            workload=workload, allocation=json.dumps(shape, sort_keys=True), defaults=values | {"kind": kind}
        )
    mine = StepObservation.objects.filter(kind=kind, workload__team=workload.team_id).order_by("-at", "-id")
    StepObservation.objects.filter(pk__in=list(mine.values_list("pk", flat=True)[KEPT:])).delete()


def lent(workload: Workload, node: str) -> tuple[Observation, ...]:
    """What others like it saw, the newest. Two queries."""
    rows = StepObservation.objects.filter(kind=key(workload, node), workload__team=workload.team_id)
    return tuple(_observations(rows.exclude(workload=workload).order_by("-at", "-id")[:LEND]))


def own(workload: Workload) -> tuple[Observation, ...]:
    """What it saw itself, one for each allocation, the newest first. One query."""
    rows = StepObservation.objects.filter(workload=workload).order_by("-at", "-id")
    return tuple(replace(one, is_lent=False) for one in _observations(rows))


def prune(at: float) -> None:
    """Forget what is too old, and the oldest beyond what is kept in all."""
    _prune(StepObservation.objects.all(), at)
    _prune(TrainingStart.objects.all(), at)


def _prune(rows: QuerySet[Any], at: float) -> None:
    rows.filter(at__lt=at - KEPT_SECONDS).delete()
    for last in rows.order_by("-at", "-id").values_list("at", flat=True)[MOST : MOST + 1]:
        rows.filter(at__lte=last).delete()


def _observations(rows: Iterable[StepObservation]) -> Iterable[Observation]:
    for row in rows:
        allocation = allocation_of(json.loads(row.allocation))
        yield Observation(allocation, row.step, row.exchange, row.wait, row.error, is_lent=True)


# --- starts -----------------------------------------------------------------------------------

TOLD_TO_LEAVE = (Phase.CHECKPOINTING.value, Phase.SUSPENDING.value)


def note_starts(*, at: float, seen: Sequence[Looked], period: float, lease: HeldLease) -> int:
    """Note the attempts whose steps were seen for the first time, in a window of so many s; how many. LeaseLost.

    How long each took to its first step is known to half a window; how long the one before took to leave, from the
    ledger of places and the event that told it to. Queries only where there is one: six each.
    """
    new = [one.training for one in seen if one.diagnosis.windows == 1 and one.window.workers]
    if not new:
        return 0
    with transaction.atomic():
        lease.check()
        return sum(_note_start(at - period / 2, one.uid, one.attempt) for one in new)


def _note_start(stepped_at: float, uid: UUID, attempt: int) -> bool:
    """Whether its first step was noted now."""
    bound, _ = _span(uid, attempt)
    workload = Workload.objects.filter(pk=uid).first()
    if bound is None or workload is None:
        return False
    mine = Placement.objects.filter(workload=uid, attempt=attempt).order_by("-rank")
    values = {
        "kind": key(workload, mine.values_list("node", flat=True).first() or ""),
        "at": stepped_at,
        "leave": _leave(uid, *_span(uid, attempt - 1)),
        "begin": max(stepped_at - bound, 0.0),
    }
    return TrainingStart.objects.get_or_create(workload=workload, attempt=attempt, defaults=values)[1]


def _span(uid: UUID, attempt: int) -> tuple[float | None, float | None]:
    """When an attempt got its places, and when the last of them was free again."""
    mine = Placement.objects.filter(workload=uid, attempt=attempt)
    found = mine.aggregate(bound=Min("bound_at"), released=Max("released_at"))
    return found["bound"], found["released"]


def _leave(uid: UUID, bound: float | None, released: float | None) -> float | None:
    """From being told to leave until its last worker was gone, s; None where it was not told, or is not known."""
    if bound is None or released is None:
        return None
    told = Event.objects.filter(workload=uid, phase__in=TOLD_TO_LEAVE, cluster_at__gte=bound, cluster_at__lte=released)
    first = told.order_by("id").values_list("cluster_at", flat=True).first()
    return None if first is None else released - first
