"""One round of the slow loop: parts of quotas, workloads that move, hints for cells that are gone."""

from dataclasses import dataclass

from django.db import transaction

from controlplane.models import Change, bulk
from controlplane.runtime.wake import wake
from controlplane.services.cells import parts, rearranging, standing
from controlplane.services.scheduling import changes, inforce
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.cell import names

MOST_MOVED = 200  # workloads in one round: their rows are locked meanwhile


@dataclass(frozen=True, slots=True)
class Divided:
    """What one round did. is_pending: something that was lowered, or is not given to others yet, makes it due soon."""

    changed: int = 0
    is_pending: bool = False


@transaction.atomic
def divide(*, lease: HeldLease) -> Divided:
    """Divide quotas anew and move waiting work. Raises LeaseLost. Nothing where there is one cell."""
    lease.check()
    cells = inforce.now().cells
    if not cells:
        return Divided()
    parts.alone()
    before = standing.stored()
    may_raise = parts.all_have_read()
    _pass_on(names(cells))
    on, held = standing.ground(cells), standing.held()
    moved = rearranging.move(rearranging.astray(rearranging.placed_in(cells)))
    going = rearranging.routed(on, standing.waiting(), held)
    moved += rearranging.move(dict(list(going.items())[:MOST_MOVED]))
    waiting = standing.waiting()
    goal = parts.wanted(on, held, waiting)
    limits = parts.nearer(on, goal, before, may_raise=may_raise)
    changed = parts.store(on, limits, before)
    standing.note(held, parts.asked_of(on, waiting))
    if moved or changed:
        wake("schedule")
    is_short = any(limits[key].nominal != part.nominal for key, part in goal.items() if key in limits)
    return Divided(moved + len(changed), is_pending=is_short)


def _pass_on(there: tuple[str, ...]) -> None:
    """Hints for cells that are gone by now: written with the cell that a row had just before."""
    lost = [(number, uid) for number, uid, cell in bulk.select(Change, ("id", "workload", "cell")) if cell not in there]
    changes.touch(uid for _, uid in lost if uid is not None)
    changes.forget(lost)
