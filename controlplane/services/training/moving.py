"""A running training that asks to run elsewhere, or is to have fewer workers: the wish is written here, the scheduler
decides the places.

So a move is decided by a round, with the quota, the planned starts and the work of others in it (scheduler/actions/
reallocate.py). Once it has started again the wish is gone.
"""

from collections.abc import Sequence

from django.db import transaction

from controlplane.models import Workload
from controlplane.services.errors import Refused
from controlplane.services.intake import ownership
from controlplane.services.intake.ownership import Hand
from controlplane.services.workloads.transitions import locked
from scheduler.model.workload import WAITING, Phase


@transaction.atomic
def ask(
    *,
    workload: Workload,
    workers: Sequence[int],
    off: Sequence[str],
    role_counts: Sequence[int] = (),
    examples: int | None = None,
    falls_back: bool = False,
    actor: str,
    event: tuple[str, str],
    hand: Hand,
) -> None:
    """Ask for a place for so many workers on each node, most first, on none of the nodes `off`. event: kind, message.

    role_counts: how many members each of its roles is to have there; empty: as many as now. examples: in a step of all
    workers, with which it is to start again; None: as now. falls_back: should it fail with so many, it has as many as
    now again, and that is no failure of its own. Raises Refused 409 where it does not run, or saves no work with which
    it could start again.
    """
    ownership.require(workload, "move", hand)
    batch, row = locked(workload, actor, None)
    if row.phase != Phase.RUNNING or row.intent:
        message = f"{row.name} is {row.phase}; only a training that runs moves. Try again once it runs."
        raise Refused(409, "NotRunning", "", message)
    if workload.checkpoint_interval is None or not workload.preemptible:
        message = f"{row.name} saves no checkpoints (checkpoint.interval) or may not be stopped, so it is not moved."
        raise Refused(409, "MayNotMove", "", message)
    batch.bump(
        row, goes_to=list(workers), off=list(off), role_counts=list(role_counts), batch_wanted=examples,
        batch_before=row.batch if falls_back else row.batch_before,
    )  # fmt: skip
    kind, message = event
    data = {"goes_to": list(workers), "off": list(off)}
    data |= {"role_counts": list(role_counts)} if role_counts else {}
    data |= {"batch": examples} if examples is not None else {}
    batch.note(row, kind, message=message, data=data)
    batch.write()


@transaction.atomic
def cap(*, workload: Workload, workers: int | None, actor: str, event: tuple[str, str], hand: Hand) -> None:
    """Have an elastic training run with no more workers than this, or again with up to its most (None).

    The scheduler stops those that are too many, and grows it again where it has room. One that waits may be let have
    more: it has them once it starts. Raises Refused 409 where it does not run, or is not elastic.
    """
    ownership.require(workload, "change", hand)
    batch, row = locked(workload, actor, None)
    is_more = row.workers_cap is not None and (workers is None or workers > row.workers_cap)
    may = not row.intent and (row.phase == Phase.RUNNING or (is_more and row.phase in WAITING))
    if not may or row.workers_min >= max(row.workers, row.workers_max):
        message = f"{row.name} is {row.phase} with {row.workers_min} to {row.workers_max} workers, so it cannot shrink."
        raise Refused(409, "NotElastic", "workers", message)
    batch.bump(row, workers_cap=workers)
    kind, message = event
    batch.note(row, kind, message=message, data={"workers_cap": workers})
    batch.write()


@transaction.atomic
def plan(*, workload: Workload, workers: int | None, actor: str, message: str) -> bool:
    """Have an elastic training that runs have no more workers than this by the plan, or up to its most (None).

    Whether that was done: not where it runs no more, or is stopped by somebody.
    """
    batch, row = locked(workload, actor, None)
    if row.phase != Phase.RUNNING or row.intent or row.workers_planned == workers:
        return False
    batch.bump(row, workers_planned=workers)
    batch.note(row, "WorkersPlanned", message=message, data={"workers_planned": workers})
    batch.write()
    return True


@transaction.atomic
def settle(*, workload: Workload, actor: str) -> None:
    """What it has on trial is its own from now on: what fails with it is a failure like any other."""
    batch, row = locked(workload, actor, None)
    if row.batch_before is not None:
        batch.bump(row, batch_before=None)
        batch.write()


@transaction.atomic
def withdraw(*, workload: Workload, actor: str) -> bool:
    """Have it stay where it is, unless it leaves already; whether it had asked for other places."""
    batch, row = locked(workload, actor, None)
    if not row.goes_to or row.moving:
        return False
    before = None if row.batch_before == row.batch else row.batch_before
    batch.bump(row, goes_to=[], off=[], role_counts=[], batch_wanted=None, batch_before=before)
    batch.write()
    return True
