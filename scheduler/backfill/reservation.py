"""Room kept for a claimant that waits too long: from when, on which places, and what is left beside it.

EASY backfill (Lifka 1995, The ANL/IBM SP scheduling system), on devices instead of a node count. The claimant has a
planned start; others may use its places meanwhile if they are expected to have ended by then, or for good what it
does not need. Nothing is stored: each round plans again from its snapshot.
"""

from dataclasses import replace
from math import ceil

import numpy as np

from scheduler.backfill.lending import lenders, what_is_lent, what_stays
from scheduler.model.partial_cycle import Start
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, MEMORY, Columns, Inventory, Snapshot, states_counted
from scheduler.model.workload import Phase, Workload
from scheduler.predict.run_times import RunTimes, expected_end
from scheduler.quota.tree import Usage
from scheduler.state.free import Free, free_of
from scheduler.state.passes import refresh_later
from scheduler.state.plan import Plan


class Reservation:
    """What will be held when the claimant starts: by itself, and by all that is not expected to have ended.

    Without what gangs hold beyond their count, which the claimant gets then (lending.py).
    The plan tells it about each workload that it changes, so it stays right within the round.
    """

    def __init__(self, plan: Plan, workload: Workload, start: Start, ended: list[Workload], times: RunTimes) -> None:
        self.workload = replace(workload, phase=Phase.ADMITTED, placement=(*workload.placement, *start.places))
        self.start = start
        self._snapshot: Snapshot = plan.snapshot
        # Seconds from now: what may start before it has ended by then in nine of ten cases, and at the latest.
        self.soonest = min(start.at, start.bound) - plan.snapshot.at
        self.latest = start.bound - plan.snapshot.at
        self.times = times
        self._gone = {w.id for w in ended}
        self._holding = plan.ledger.holding  # those that held something when it was made, and these as well
        self._also = {uid for uid in plan.moved if plan.workload(uid).placement}
        self._free: Free | None = None  # follows the columns at the next look, node by node
        self._touched: set[int] = set()  # nodes where it does not yet
        self._missing = 0
        self._columns: Columns = plan.columns.copy()  # FUTURE_IDLE only is kept up to date
        self.usage: Usage = plan.usage.copy()
        self.usage.count_all(ended, -1)
        self._take_away(plan, ended)
        for gang in lenders(plan):
            if gang.id not in self._gone:
                self._add(what_is_lent(gang), -1)
        self._add(replace(self.workload, placement=start.places))

    def ends_in_time(self, workload: Workload) -> bool:
        """Whether the workload, started now, will in nine of ten cases have ended by the planned start.

        And never, as far as is known, run on after the bound: many small ones would each have their tenth case.
        """
        high, most = self.left(workload)
        return high <= self.soonest and most <= self.latest

    def left(self, workload: Workload) -> tuple[float, float]:
        """`RunTimes.left` of it, remembered for what waits."""
        return self.times.left(workload, self._snapshot.at)

    def binds(self, workload: Workload) -> bool:
        """Whether the workload may start only beside it.

        Not itself, what will have ended, nor what its team puts above it: that may even preempt it once it runs.
        """
        if workload.id == self.workload.id:
            return False
        is_above = workload.team == self.workload.team and workload.priority > self.workload.priority
        return not is_above and not self.ends_in_time(workload)

    def high_end(self, workload: Workload) -> float:
        """By when it will in nine of ten cases have ended if it starts now; inf if it does not end by itself."""
        return expected_end(workload, self._snapshot.at, self.times.history, self.times.settings).high

    def count(self, workload: Workload, sign: int = 1) -> None:
        """Note that a workload holds its placement (sign -1: no longer), if it still will at the planned start."""
        is_known = workload.id in self._holding or workload.id in self._also
        is_gone = workload.id in self._gone if is_known else self.ends_in_time(workload)
        if workload.placement and not is_gone:
            self._add(what_stays(workload), sign)

    def free(self, inventory: Inventory) -> Free:
        """What will be free for good once the claimant has started; the same columns, changed, after a change."""
        if self._free is None:
            gpu = inventory.gpu_capacity - self._columns.gpu[FUTURE_IDLE]
            free = free_of(inventory, gpu, inventory.node_capacity - self._columns.node[FUTURE_IDLE])
            self._free, self._touched = free, set()
            self._missing = -int(np.minimum(free.gpu, 0).sum() + np.minimum(free.node, 0).sum())
        while self._touched:
            free = self._free
            self._missing += refresh_later(
                self._touched.pop(), inventory, self._columns, (free.gpu, free.node, free.idle)
            )
        return self._free

    def missing(self, inventory: Inventory) -> int:
        """How much of what it needs others hold, thousandths and MiB together."""
        self.free(inventory)
        return self._missing

    def _add(self, workload: Workload, sign: int = 1) -> None:
        index = self._snapshot.inventory.index
        self._touched.update(index[worker.node] for worker in workload.placement if worker.node in index)
        self._add_columns(workload, sign)
        self.usage.count(workload, sign)

    def _add_columns(self, workload: Workload, sign: int) -> None:
        for worker in workload.placement:
            if FUTURE_IDLE in states_counted(workload, worker):
                self._columns.add_worker(self._snapshot.inventory, workload, worker, FUTURE_IDLE, sign)

    def _take_away(self, plan: Plan, ended: list[Workload]) -> None:
        """Those that will have ended hold nothing: by the ledger's rows where they are still as they were."""
        ledger = plan.ledger
        gone = np.zeros(len(ledger.ints), dtype=np.bool_)
        for workload in ended:
            if ledger.holding.get(workload.id) is workload:
                gone[ledger.slot[workload.id]] = True
            else:
                self._add_columns(workload, -1)
        for rows, columns in ((ledger.rows.devices, self._columns.gpu), (ledger.rows.hosts, self._columns.node)):
            theirs = rows[gone[rows[:, 0]]]
            for kind in (COMPUTE, MEMORY):
                held = np.bincount(theirs[:, 1], theirs[:, 2 + kind], columns.shape[2])
                columns[FUTURE_IDLE, kind] -= held.astype(np.int64)


def clock_text(at: float) -> str:
    """A time of the cluster's clock within its day: 07:05:09."""
    second = int(at)
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"


def length_text(seconds: float) -> str:
    """A length of time, rounded up to whole minutes from two minutes on: 90 s, 25 min, 1 h 30 min."""
    if seconds < 120:
        return f"{ceil(seconds)} s"
    hours, minutes = divmod(ceil(seconds / 60), 60)
    return " ".join(part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part)
