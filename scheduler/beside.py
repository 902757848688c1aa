"""What planned starts leave to a claimant: it may start beside them, and past those of heads that borrow.

What a team owns is its own before anybody borrows it. So a claimant that stays within what its team owns, while
another team has borrowed some of that, starts past the planned start of a head that would borrow itself: to keep the
room for that head would lend it on for as long as the head waits. Where no other team borrows, no claimant delays
any head, and none delays one of another team that stays within what that team owns. A gang that its own team overtakes
in this way catches up in the end (actions/catch_up.py).
"""

from collections.abc import Iterator

import numpy as np

from scheduler.fit import flavors
from scheduler.plan import Free, Plan, free_of
from scheduler.reservation import Reservation
from scheduler.settings import Settings
from scheduler.snapshot import LATER, Flavor, Inventory
from scheduler.workload import Workload, least

BINDS = "-"  # in `terms`


def begin_turn(plan: Plan, workload: Workload, settings: Settings) -> None:
    """Settle for the claimant's whole turn which heads it may delay.

    Else a search for victims would change the answer while it goes on.
    """
    heads: list[str] = []
    if plan.reservations:
        pools = (flavor.pool for flavor in flavors(plan, workload) if flavor is not None)
        own = {pool for pool in pools if _owns(plan, workload, pool) and plan.usage.borrowers(pool)}
        over = ((plan.workload(kept.workload.id), kept.start.pool) for kept in plan.reservations)
        heads = [h.id for h, pool in over if pool in own and not _is_firm(plan, workload, h, pool, settings)]
    plan.may_delay = workload.id, frozenset(heads)


def _is_firm(plan: Plan, workload: Workload, head: Workload, pool: str, settings: Settings) -> bool:
    """Whether what a team owns is kept for the head from this claimant.

    From its own team's only until borrowers could have left for the head: what the others hold may be in pieces of
    which it cannot have enough, and its team need not lend what is left meanwhile.
    """
    waited = plan.snapshot.at - head.queued_at
    is_stuck = workload.team == head.team and waited > settings.min_runtime_seconds + head.grace_seconds
    return _owns(plan, head, pool) and not is_stuck


def _owns(plan: Plan, workload: Workload, pool: str) -> bool:
    """Whether what its team owns covers the claimant's least beside all that the team holds."""
    return workload.need_milli(least(workload)) <= plan.usage.within_nominal(workload.team, pool, LATER)


def binding(plan: Plan, workload: Workload) -> Iterator[Reservation]:
    """The reservations that this claimant must not delay."""
    whose, may_delay = plan.may_delay
    for kept in plan.reservations:
        if kept.binds(workload) and not (workload.id == whose and kept.workload.id in may_delay):
            yield kept


def room_for(plan: Plan, workload: Workload, when: int) -> Free:
    """What is free for this claimant in one state: all that is free, less what reservations keep from it."""
    free = plan.free[when]
    if not plan.reservations:
        return free
    bound = list(binding(plan, workload))
    key = when, tuple(kept.workload.id for kept in bound)
    known = plan.beside.get(key)
    if known is None:
        for kept in bound:
            free = _least(plan.inventory, free, kept.free(plan.inventory))
        known = plan.beside[key] = free
    return known


def quota_for(plan: Plan, workload: Workload, pool: str) -> int:
    """How many workers its team's quota in a pool still allows without delaying a reservation."""
    room = workload.missing
    for kept in binding(plan, workload) if workload.uses_gpus else ():
        room = min(room, workload.workers_within(kept.usage.available(workload.team, pool, LATER)))
    return room


def keeping_out(plan: Plan, workload: Workload, options: list[Flavor | None]) -> Reservation | None:
    """The first reservation on these flavors that this claimant may not delay; work without GPUs delays it anywhere."""
    pools = {flavor.pool for flavor in options if flavor}
    return next((kept for kept in binding(plan, workload) if not pools or kept.start.pool in pools), None)


def shortfall(plan: Plan, workload: Workload) -> int:
    """What reservations that the workload may not delay lack at their planned start: 0 as long as nothing delays them.

    Thousandths and MiB together: only good to tell whether it grew.
    """
    return sum(kept.missing(plan.inventory) for kept in binding(plan, workload))


def terms(plan: Plan, workload: Workload) -> str:
    """A text that is equal for claimants of one team and shape on which the reservations weigh alike."""
    return "".join([BINDS if kept.binds(workload) else "+" for kept in plan.reservations])


def _least(inventory: Inventory, one: Free, other: Free) -> Free:
    gpu, node = np.minimum(one.gpu, other.gpu), np.minimum(one.node, other.node)
    return free_of(inventory, gpu, node)
