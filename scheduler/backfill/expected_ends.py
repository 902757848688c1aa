"""What would be free as running work ends: for the planned start of the head of the queue."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduler.backfill.lending import lenders, what_is_lent, what_stays
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, MEMORY, Ints, states_counted
from scheduler.model.workload import Kind, Workload, least, lent
from scheduler.state.free import Free, free_of
from scheduler.state.ledger import SEQ, Floats
from scheduler.state.passes import give_by
from scheduler.state.session import Session

Row = tuple[int, int, int]


class Changed(NamedTuple):
    """Workers that the plan has changed. until: [rows] s; rows: [rows, 3] device or node, thousandths, MiB."""

    until: Floats
    rows: Ints


class Ends:
    """When each workload on a plan is expected to end: by the ledger's columns where it is still as it was.

    known: by slot, what `ExpectedEnds.of` says of the ledger; it is left as it is.
    """

    def __init__(self, session: Session, known: Floats) -> None:
        self.plan = plan = session.plan
        self._times, self._constraints = session.times, session.constraints
        at, ledger = plan.snapshot.at, plan.ledger
        self._ends = known.copy()
        changed = plan.changed()
        self._ends[[ledger.slot[uid] for uid in changed if uid in ledger.slot]] = np.inf
        now = (plan.workload(uid) for uid in changed)
        self._changed = [(self._planned(w)[0], w) for w in now if w.placement and w.kind is not Kind.INFERENCE]
        # Ranks from which on a gang's workers are lent: they are free now. By the ledger's slots.
        self._lenders = lenders(plan)
        self._lent_from: Ints = np.full(len(self._ends), np.iinfo(np.int64).max)
        others = set(changed)
        for gang in self._lenders:
            if gang.id not in others:
                self._lent_from[ledger.slot[gang.id]] = lent(gang)[0]
        # A claimant may fit as things stand, and only quota be in the way: then the first time is now.
        finite = self._ends[np.isfinite(self._ends)]
        self.times: list[float] = np.unique([at, *(end for end, _ in self._changed), *finite]).tolist()
        self._devices, self._hosts = self._rows_of_changed()

    def _planned(self, workload: Workload) -> tuple[float, float]:
        return self._times.planned_end(workload, self.plan.snapshot.at)

    def _rows_of_changed(self) -> tuple[Changed, Changed]:
        """Rows of what the plan has changed: when each is free, and the device or node, thousandths, MiB."""
        inventory = self.plan.inventory
        found: tuple[list[tuple[float, Row]], list[tuple[float, Row]]] = [], []
        for end, workload in self._changed:
            ranks = lent(workload)
            for worker in workload.placement:
                node = inventory.index.get(worker.node)
                if node is None or FUTURE_IDLE not in states_counted(workload, worker):
                    continue
                until = self.plan.snapshot.at if worker.rank in ranks else end
                milli, memory = workload.on_device(worker)
                found[1].append((until, (node, *workload.on_node(worker))))
                first, after = int(inventory.offset[node]), int(inventory.offset[node + 1])
                found[0].extend((until, (first + i, milli, memory)) for i in worker.gpus if first + i < after)
        devices, hosts = (
            Changed(np.array([until for until, _ in some]), np.array([row for _, row in some], np.int64).reshape(-1, 3))
            for some in found
        )
        return devices, hosts

    def by(self, time: float) -> list[Workload]:
        """Those expected to have ended by then."""
        slots = self.plan.ledger.slots
        unchanged = (slots[slot] for slot in np.flatnonzero(self._ends <= time).tolist())
        return [*(w for w in unchanged if w is not None), *(w for end, w in self._changed if end <= time)]

    def longest(self, nodes: set[str]) -> float:
        """Seconds the longest of those runs, as expected or so far, that hold one of these nodes."""
        plan, ledger = self.plan, self.plan.ledger
        staying = ledger.on_nodes({plan.inventory.index[name] for name in nodes})
        unchanged = {w.id: w for w in (*staying, *ledger.unsettled.values()) if plan.workload(w.id) is w}
        held = (w for w in (*unchanged.values(), *(w for _, w in self._changed)) if w.kind is not Kind.INFERENCE)
        there = (self._planned(w)[1] for w in held if any(a.node in nodes for a in w.placement))
        return max(there, default=0.0)

    def free_at(self, time: float) -> Free:
        """What would be free then for one more claimant, if nothing else started."""
        plan, inventory = self.plan, self.plan.inventory
        gpu = inventory.gpu_capacity - plan.columns.gpu[FUTURE_IDLE]
        node = inventory.node_capacity - plan.columns.node[FUTURE_IDLE]
        ledger, at = plan.ledger, plan.snapshot.at
        for rows, changed, into in (
            (ledger.rows.devices, self._devices, gpu),
            (ledger.rows.hosts, self._hosts, node),
        ):
            give_by(rows, self._ends, self._lent_from, at, time, into)
            theirs = changed.rows[changed.until <= time]
            for kind in (COMPUTE, MEMORY):
                np.add.at(into[kind], theirs[:, 0], theirs[:, 1 + kind])
        for kept in self._constraints.reservations:
            free = kept.free(inventory)
            gpu, node = np.minimum(gpu, free.gpu), np.minimum(node, free.node)
        gpu = np.where(inventory.gpu_capacity > 0, gpu, 0)
        return free_of(inventory, gpu, node)

    def first_within_quota(self, workload: Workload, pool: str) -> int | None:
        """The first of the times at which its team's quota in the pool covers the workload, None if none does."""
        need, team = workload.need_milli(least(workload)), workload.team
        usage = self.plan.usage.copy()
        usage.count_all(map(what_is_lent, self._lenders), -1)

        def is_covered() -> bool:
            is_firm = not workload.preemptible
            room = usage.available(team, pool, FUTURE_IDLE)
            return need <= (
                min(room, usage.within_nominal(team, pool, FUTURE_IDLE, firm_only=True)) if is_firm else room
            )

        rest = self._in_order()
        held = next(rest, None)
        for number, time in enumerate(self.times):
            while held is not None and held[0] <= time:
                usage.count(what_stays(held[1]), -1)
                held = next(rest, None)
            if is_covered():
                return number
        return None

    def _in_order(self) -> Iterator[tuple[float, Workload]]:
        """The expected ends, the earliest first."""
        ledger = self.plan.ledger
        order = np.lexsort((ledger.ints[:, SEQ], self._ends))
        order = order[np.isfinite(self._ends[order])]
        unchanged = ((float(self._ends[slot]), ledger.slots[slot]) for slot in order.tolist())
        rest = sorted(self._changed, key=lambda one: (one[0], one[1].seq))
        for end, workload in unchanged:
            while rest and rest[0][0] < end:
                yield rest.pop(0)
            if workload is not None:
                yield end, workload
        yield from rest
