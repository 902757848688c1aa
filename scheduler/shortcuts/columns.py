"""Claimants of a class of which one was refused have no turn, and are told so many at once, on the queue's columns.

What `equivalence.Refusals` does one by one: the same claimants have turns in the same order, and are told the same.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.backfill.constraints import BINDS
from scheduler.backfill.reservation import Reservation
from scheduler.cycle.equivalence import First
from scheduler.cycle.ordering import Next
from scheduler.cycle.precedence import OrderKeys, precedence
from scheduler.explain.refresh import is_time
from scheduler.fit.capacity import Refusal
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Bools, Ints
from scheduler.model.workload import Workload
from scheduler.state.pending import (
    ATTAINED,
    CLASS_OF,
    DEADLINE,
    EQUIVALENCE,
    FAILURES,
    NEED,
    PRIORITY,
    QUEUED,
    REASON,
    REASON_AT,
    SEQ,
    TEAM,
    TEXT,
    PendingQueue,
)
from scheduler.state.session import Session

WINDOW = 128  # rows looked at together: mostly the next turn is near
NOT_TOLD = -1


class Columns:
    """The queue of one round. told: by slot, which of `refusals` holds for it, or NOT_TOLD."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.pending: PendingQueue = session.plan.ledger.pending
        self.told: Ints = np.full(len(self.pending.ints), NOT_TOLD, dtype=np.int64)
        self.refusals: list[Refusal] = []
        self.passed: list[Ints] = []  # rows in the order in which they had a turn, or would have had
        self._limited_or_gated = self._find_limited_or_gated()
        self.queues = {
            self.pending.workload(int(slots[0])).team: TeamQueue(self, slots)
            for slots in _by_team(self.pending, session.snapshot.at, session.settings)
        }

    def tell(self, workload: Workload, signature: str, first: First) -> None:
        """From here on, others of its class with no higher priority are told this.

        With a signature: of those the ones that the same reservations of those made so far bind.
        """
        queue, ints = self.queues[workload.team], self.pending.ints
        rest = queue.slots[queue.position :]
        equivalence = ints[self.pending.slot[workload.id], EQUIVALENCE]
        alike = (
            (ints[rest, EQUIVALENCE] == equivalence)
            & (ints[rest, PRIORITY] <= first.priority)
            & ~self._limited_or_gated[rest]
        )
        rows = rest[alike]
        for kept, sign in zip(self._session.constraints.reservations, signature, strict=False):
            rows = rows[self._are_bound(kept, rows) == (sign == BINDS)]
        self.told[rows] = len(self.refusals)
        self.refusals.append(first.told)

    def news(self) -> Iterator[tuple[Workload, Refusal]]:
        """Those that had no turn and are told something else than before, by submission."""
        ints, pending = self.pending.ints, self.pending
        passed = [queue.slots[: queue.position] for queue in self.queues.values()]
        slots = np.concatenate(passed) if passed else np.zeros(0, dtype=np.int64)
        slots = slots[self.told[slots] != NOT_TOLD]
        texts = np.array([pending.known((str(r.reason), r.message)) for r in self.refusals], dtype=np.int64)
        slots = slots[ints[slots, TEXT] != texts[self.told[slots]]] if slots.size else slots
        slots = slots[self._is_due(slots)] if slots.size else slots
        for slot in slots[np.argsort(ints[slots, SEQ])].tolist():
            workload = pending.workload(slot)
            if self._session.plan.workload(workload.id) is workload:
                yield workload, self.refusals[self.told[slot]]

    def _is_due(self, slots: Ints) -> Bools:
        """What `refresh.is_news` says of those that were told something else, of many."""
        pending, at = self.pending, self._session.snapshot.at
        codes = np.array([pending.known(str(r.reason)) for r in self.refusals], dtype=np.int64)
        may = is_time(pending.times[slots, REASON_AT], pending.times[slots, QUEUED], at, self._session.settings)
        due: Bools = (pending.ints[slots, REASON] != codes[self.told[slots]]) | may
        return due

    def _are_bound(self, kept: Reservation, rows: Ints) -> Bools:
        """What `Reservation.binds` says, of many."""
        pending, head = self.pending, kept.workload
        left = self._session.memo.left.of(pending, rows, self._session.snapshot.at, kept.times)
        is_in_time = (left[:, 0] <= kept.soonest) & (left[:, 1] <= kept.latest)
        is_of_team = pending.ints[rows, TEAM] == pending.known(("team", head.team))
        is_above = is_of_team & (pending.ints[rows, PRIORITY] > head.priority)
        bound: Bools = ~(is_in_time | is_above | (rows == pending.slot.get(head.id, -1)))
        return bound

    def _find_limited_or_gated(self) -> Bools:
        """Which stand alone (`Refusals.stands_alone`): what others are told does not hold for them. By slot."""
        session, pending = self._session, self.pending
        found = pending.is_gated.copy()
        found[[pending.slot[uid] for uid in session.preemption_limited]] = True
        own = (uid for uid, w in session.plan.ledger.models.items() if session.plan.has_gpus_of_its_own(w))
        found[[pending.slot[uid] for uid in own if uid in pending.slot]] = True
        for team in session.over_budget:
            found[pending.ints[:, TEAM] == pending.known(("team", team))] = True
        return found


class TeamQueue:
    """The claimants of one team, first one first; slots: their rows, in order. See ordering.Queue."""

    def __init__(self, columns: Columns, slots: Ints) -> None:
        self.slots = slots
        self.position = 0
        self._columns = columns

    def peek(self, own: int, borrows: bool) -> Next | None:
        """The next one that was not told anything, or on which the team's turn depends; None after the last.

        own: what the team may still take without borrowing; borrows: whether its turn is one of those that borrow.
        """
        pending, told = self._columns.pending, self._columns.told
        while self.position < len(self.slots):
            rows = self.slots[self.position : self.position + WINDOW]
            stops = (told[rows] == NOT_TOLD) | ((pending.ints[rows, NEED] > own) != borrows)
            first = int(stops.argmax())
            passed = first if stops[first] else len(rows)
            if passed:
                self._columns.passed.append(rows[:passed])
                self.position += passed
            if stops[first]:
                return Next.of(pending, int(rows[first]))
        return None

    def advance(self) -> None:
        """Go on behind the one that `peek` told."""
        self._columns.passed.append(self.slots[self.position : self.position + 1])
        self.position += 1


def _by_team(pending: PendingQueue, at: float, settings: Settings) -> list[Ints]:
    """The rows of each team in the order of `precedence`."""
    slots = np.flatnonzero(pending.waits)
    if not slots.size:
        return []
    ints, times = pending.ints[slots], pending.times[slots]
    kinds, priority, attained, failures, seq = ints[:, (CLASS_OF, PRIORITY, ATTAINED, FAILURES, SEQ)].T
    keys = OrderKeys(kinds, priority, attained, failures, seq, times[:, QUEUED], times[:, DEADLINE])
    values = precedence(keys, at, settings)
    order = np.lexsort((*values[::-1], ints[:, TEAM]))
    return np.split(slots[order], np.flatnonzero(np.diff(ints[order, TEAM])) + 1)
