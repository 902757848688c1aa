"""What would be free and held if some left, tried beside the plan: only what decides whether a claimant fits then.

A search for victims tries many sets of them. On the plan each try changes its columns, what is counted for teams and
all that follows it; here a victim's room is added to a copy of what is free once all has left, and taken from what its
team holds, and both are put back when the search ends.
"""

from collections.abc import Callable, Iterable

from scheduler.fit.claim import fits_in
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, MEMORY, is_staying
from scheduler.model.workload import Workload
from scheduler.state.free import Free, is_idle
from scheduler.state.session import Session


class Scratch:
    """One claimant's victims. While it is open the plan's usage says what teams would hold; `close` puts it right."""

    def __init__(self, session: Session, claimant: Workload, is_owed: bool) -> None:
        plan = session.plan
        self._session, self._claimant, self._is_owed = session, claimant, is_owed
        later = plan.free[FUTURE_IDLE]
        self._free = Free(later.gpu.copy(), later.node.copy(), later.idle.copy())
        self._usage, self._state = plan.usage, plan.usage.state
        self._gone: dict[str, Workload] = {}

    def fits(self) -> bool:
        """Whether the claimant fits once these have left."""
        return fits_in(self._session, self._claimant, FUTURE_IDLE, self._is_owed, self._free)

    def needed(self, scenario: Iterable[Workload], may_take: Callable[[Workload], bool]) -> list[Workload]:
        """Those of the scenario that have to leave, in its order, for the claimant to fit; none if it never does."""
        victims = self._until_it_fits(scenario, may_take)
        needed: list[Workload] = []
        for victim in reversed(victims):  # the dearest first: one without which it fits as well may stay
            self._stay(victim)
            if not self.fits():
                self._leave(victim)
                needed.append(victim)
        self.close()
        return needed[::-1]

    def _until_it_fits(self, scenario: Iterable[Workload], may_take: Callable[[Workload], bool]) -> list[Workload]:
        victims: list[Workload] = []
        next_look = 1
        for workload in scenario:
            if not may_take(workload):
                continue
            victims.append(workload)
            self._leave(workload)
            if len(victims) >= next_look:
                if self.fits():
                    return victims
                next_look = max(len(victims) + 1, len(victims) * 5 // 4)  # looking costs more than a spare victim
        return victims if victims and self.fits() else []

    def close(self) -> None:
        """All are back, and all is as it was."""
        for workload in [*self._gone.values()]:
            self._stay(workload)
        self._usage.state = self._state

    def _leave(self, workload: Workload) -> None:
        self._gone[workload.id] = workload
        self._count(workload, 1)

    def _stay(self, workload: Workload) -> None:
        del self._gone[workload.id]
        self._count(workload, -1)

    def _count(self, workload: Workload, sign: int) -> None:
        """Give back (sign -1: take) what its workers would hold later."""
        inventory, free = self._session.plan.inventory, self._free
        self._usage.count_staying(workload, -sign)
        for worker in workload.placement:
            at = inventory.index.get(worker.node)
            if at is None or not is_staying(workload, worker):
                continue
            cores, host = workload.on_node(worker)
            free.node[COMPUTE, at] += sign * cores
            free.node[MEMORY, at] += sign * host
            first, after = int(inventory.offset[at]), int(inventory.offset[at + 1])
            devices = [first + index for index in worker.gpus if first + index < after]
            milli, memory = workload.on_device(worker)
            free.gpu[COMPUTE, devices] += sign * milli
            if memory:
                free.gpu[MEMORY, devices] += sign * memory
            free.idle[at] = int(is_idle(free.gpu[:, first:after]).sum())
