"""How a running training is given another allocation: CPU in place, or places that the scheduler decides."""

from contextlib import suppress
from typing import Any

from django.db import transaction

from autoscaler.reallocate.candidates import Axis
from autoscaler.reallocate.rows import allocation_of
from autoscaler.throughput.allocation import Allocation
from controlplane.domain import coursestate
from controlplane.jobspec.spec import SpecError
from controlplane.lifecycle import resizing
from controlplane.models import Experiment as Row
from controlplane.models import ExperimentStatus as Status
from controlplane.models import Workload
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import Hand
from controlplane.services.training import allocations, moving
from controlplane.services.workloads import amending

EventOf = tuple[str, str]  # kind and message


def give(
    workload: Workload,
    before: Allocation,
    wanted: Allocation,
    *,
    actor: str,
    event: EventOf,
    hand: Hand,
    on_trial: bool = False,
) -> None:
    """Have its workers get what differs. on_trial: should it fail with that, it has what it had before again.

    Raises Refused or SpecError where that is not possible.
    """

    def move(**more: Any) -> None:
        workers = [gpus // wanted.of_worker for gpus in wanted.gpus]
        moving.ask(workload=workload, workers=workers, off=wanted.off, actor=actor, event=event, hand=hand, **more)

    if wanted.cpu != before.cpu:
        resources = {**workload.spec["resources"], "cpu": allocations.cores(wanted.cpu)}
        changes = {"resources": resources}
        amending.patch(workload=workload, changes=changes, version=None, actor=actor, event=event, hand=hand)
    elif wanted.servers != before.servers:
        move(role_counts=[wanted.servers])  # of its one role, the parameter servers (allocations.server_counts)
    elif wanted.workers != before.workers:
        few = wanted.workers if wanted.workers < before.workers else _cap_before(workload)
        moving.cap(workload=workload, workers=few, actor=actor, event=event, hand=hand)
    elif wanted.batch != before.batch:  # where it is, unless others are in the way once it has left
        move(examples=allocations.examples_of(workload, wanted), falls_back=on_trial)
    elif (wanted.gpus, wanted.off) != (before.gpus, before.off):
        move()


def given(
    workload: Workload,
    before: Allocation,
    wanted: Allocation,
    *,
    actor: str,
    event: EventOf,
    hand: Hand,
    on_trial: bool = False,
) -> str:
    """The same; the answer is why not, empty if it was begun."""
    try:
        with transaction.atomic():
            give(workload, before, wanted, actor=actor, event=event, hand=hand, on_trial=on_trial)
    except Refused as refused:
        return refused.message
    except SpecError as wrong:
        return str(wrong)
    return ""


def grow_again(workload: Workload, *, actor: str, event: EventOf) -> None:
    """Let it have as many workers as before the newest change of these; not where it does not run any more."""
    with suppress(Refused), transaction.atomic():
        few = _cap_before(workload)
        moving.cap(workload=workload, workers=few, actor=actor, event=event, hand=Hand.LOOP)


def take_back(*, workload: Workload, actor: str, hand: Hand) -> None:
    """Have its workers get what they had before its newest change. Raises Refused 409 where there is none.

    The loop sees another hand in that: it judges a change on trial no further, and does not try it again. What was
    moved goes back once there is room; what has not left yet stays.
    """
    found = Row.objects.filter(workload=workload, status__in=(Status.ON_TRIAL, Status.KEPT)).order_by("-id").first()
    now = None if found is None else _now(workload, found)
    if found is None or now is None:
        message = (
            f"{workload.name} has no change of Weft's that could be taken back: none was made, or it is gone again."
        )
        raise Refused(409, "NothingToTakeBack", "", message)
    if found.axis in coursestate.MOVES and workload.goes_to and moving.withdraw(workload=workload, actor=actor):
        return
    event = ("ChangeTakenBack", f"Taken back: {found.message}."[:400])
    give(workload, now, allocation_of(found.before), actor=actor, event=event, hand=hand)


def _cap_before(workload: Workload) -> int | None:
    """With how many workers it was to run before the newest change of these; None: up to its most."""
    kept = Row.objects.filter(workload=workload, axis=Axis.WORKERS, status=Status.KEPT).exclude(
        after__workers=workload.workers_cap
    )
    newest = kept.order_by("-id").values_list("after__workers", flat=True).first()
    return None if newest is None else int(newest)


def _now(workload: Workload, newest: Row) -> Allocation | None:
    """What it has, if that is what its newest change gave it; else None."""
    after = allocation_of(newest.after)
    if newest.axis == Axis.WORKERS:
        return after if workload.workers_cap == after.workers else None
    if newest.axis not in coursestate.MOVES:
        return after if round(after.cpu * 1000) == resizing.wanted(workload)[0] else None
    members = allocations.places([workload.pk]).get(workload.pk, ())
    now = allocations.of(workload, members, after.off)
    return now if now is not None and coursestate.is_same(after, now) else None
