"""Backfill constraints: what planned starts leave to a claimant that starts beside them, or past those that borrow.

What a team owns is its own before another team borrows it. So a claimant that stays within what its team owns, while
another team has borrowed some of that, starts past the planned start of a head that would borrow itself: to keep the
room for that head would lend it on for as long as the head waits. Where no other team borrows, no claimant delays
any head, and none delays one of another team that stays within what that team owns. A gang that its own team overtakes
in this way catches up in the end (actions/catch_up.py).
"""

from collections.abc import Iterator

import numpy as np

from scheduler.backfill.reservation import Reservation
from scheduler.fit.capacity import Flavors
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Flavor, Inventory
from scheduler.model.workload import Workload, least
from scheduler.quota.tree import ENDLESS
from scheduler.state.free import Free, free_of
from scheduler.state.passes import lower
from scheduler.state.plan import Plan

BINDS = "-"  # in `signature`


class BackfillConstraints:
    """The reservations of one round, and what they keep from which claimant. They follow the plan."""

    def __init__(self, plan: Plan, flavors: Flavors, settings: Settings) -> None:
        self.reservations: list[Reservation] = []  # planned starts of heads that wait too long
        self._plan, self._flavors, self._settings = plan, flavors, settings
        # What is free beside them, by the state and the heads that bind, and up to which of `touched` that holds.
        self._free: dict[tuple[int, tuple[str, ...]], tuple[Free, int]] = {}
        self._touched: list[int] = []  # nodes where the plan changed something, in order
        self._may_delay: tuple[str, frozenset[str]] = ("", frozenset())  # whose turn it is, and those heads
        plan.followers.append(self)

    def changed(self, old: Workload, new: Workload) -> None:
        """A workload is now like this instead of like that (scheduler.state.plan.Follower)."""
        index = self._plan.inventory.index
        nodes = {worker.node for workload in (old, new) for worker in workload.placement}
        self._touched += [index[name] for name in nodes if name in index]
        for kept in self.reservations:
            kept.count(old, -1)
            kept.count(new)

    def begin_turn(self, workload: Workload) -> None:
        """Settle for the claimant's whole turn which heads it may delay.

        Else a search for victims would change the answer while it goes on.
        """
        heads: list[str] = []
        if self.reservations:
            plan = self._plan
            pools = (flavor.pool for flavor in self._flavors.of(workload) if flavor is not None)
            own = {pool for pool in pools if self._owns(workload, pool) and plan.usage.borrowers(pool)}
            over = ((plan.workload(kept.workload.id), kept.start.pool) for kept in self.reservations)
            heads = [h.id for h, pool in over if pool in own and not self._is_firm(workload, h, pool)]
        self._may_delay = workload.id, frozenset(heads)

    def _is_firm(self, workload: Workload, head: Workload, pool: str) -> bool:
        """Whether what a team owns is kept for the head from this claimant.

        From its own team's only until borrowers could have left for the head: what the others hold may be in pieces
        of which it cannot have enough, and its team need not lend what is left meanwhile.
        """
        waited = self._plan.snapshot.at - head.queued_at
        is_stuck = workload.team == head.team and waited > self._settings.min_runtime_seconds + head.grace_seconds
        return self._owns(head, pool) and not is_stuck

    def _owns(self, workload: Workload, pool: str) -> bool:
        """Whether what its team owns covers the claimant's least beside all that the team holds."""
        return workload.need_milli(least(workload)) <= self._plan.usage.within_nominal(workload.team, pool, FUTURE_IDLE)

    def binding(self, workload: Workload) -> Iterator[Reservation]:
        """The reservations that this claimant must not delay."""
        turn, may_delay = self._may_delay
        for kept in self.reservations:
            if kept.binds(workload) and not (workload.id == turn and kept.workload.id in may_delay):
                yield kept

    def room_for(self, workload: Workload, when: int) -> Free:
        """What is free for this claimant in one state: all that is free, less what reservations keep from it."""
        return self._beside(when, list(self.binding(workload))) if self.reservations else self._plan.free[when]

    def _beside(self, when: int, bound: list[Reservation]) -> Free:
        free, inventory = self._plan.free[when], self._plan.inventory
        if not bound:
            return free
        key = when, tuple(kept.workload.id for kept in bound)
        known = self._free.get(key)
        if known is None:
            for kept in bound:
                free = _least(inventory, free, kept.free(inventory))
        else:
            now, free = free, known[0]
            theirs = [kept.free(inventory) for kept in bound]
            for node in {*self._touched[known[1] :]}:
                for one, other in zip((now, *[free] * len(theirs)), theirs, strict=False):
                    lower(
                        node, inventory, (free.gpu, free.node, free.idle), (one.gpu, one.node), (other.gpu, other.node)
                    )
        self._free[key] = free, len(self._touched)
        return free

    def room_beside_all(self, when: int) -> Free:
        """What is free in one state less what any reservation keeps, whatever it binds."""
        return self._beside(when, self.reservations)

    def quota_beside_all(self, team: str, pool: str) -> int:
        """The milli-GPU of a pool that a team may still hold without delaying any reservation."""
        return min((kept.usage.available(team, pool, FUTURE_IDLE) for kept in self.reservations), default=ENDLESS)

    def quota_for(self, workload: Workload, pool: str) -> int:
        """How many workers its team's quota in a pool still allows without delaying a reservation."""
        room = workload.missing
        for kept in self.binding(workload) if workload.uses_gpus else ():
            room = min(room, workload.workers_within(kept.usage.available(workload.team, pool, FUTURE_IDLE)))
        return room

    def keeping_out(self, workload: Workload, options: list[Flavor | None]) -> Reservation | None:
        """The first reservation on these flavors that this claimant may not delay.

        Work without GPUs delays it anywhere.
        """
        pools = {flavor.pool for flavor in options if flavor}
        return next((kept for kept in self.binding(workload) if not pools or kept.start.pool in pools), None)

    def shortfall(self, workload: Workload) -> int:
        """What reservations that the workload may not delay lack at their planned start; 0 if nothing delays them.

        Thousandths and MiB together: only good to tell whether it grew.
        """
        return sum(kept.missing(self._plan.inventory) for kept in self.binding(workload))

    def signature(self, workload: Workload) -> str:
        """Equal for claimants of one team and class that the same reservations bind: a sign for each, in order."""
        return "".join([BINDS if kept.binds(workload) else "+" for kept in self.reservations])


def _least(inventory: Inventory, one: Free, other: Free) -> Free:
    gpu, node = np.minimum(one.gpu, other.gpu), np.minimum(one.node, other.node)
    return free_of(inventory, gpu, node)
