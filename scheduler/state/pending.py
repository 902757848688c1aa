"""The pending queue as columns: most request what one before them was refused, and a round refuses all of them at once.

A part of the ledger: kept by difference from one snapshot to the next, and nothing in it that does not follow from the
snapshot. Numbers of teams, equivalence classes and texts are given in the order of first sight and mean nothing beyond
the table.
"""

import operator
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from scheduler.cycle.precedence import class_of
from scheduler.model.snapshot import Bools, Ints
from scheduler.model.workload import Kind, Workload, least
from scheduler.predict.run_times import RunTimes, runs_alike
from scheduler.state.slots import Slotted

Floats = NDArray[np.float64]
# Columns of `ints`. REASON and TEXT: what it was told, the code and the whole.
SEQ, PRIORITY, CLASS_OF, ATTAINED, FAILURES, TEAM, EQUIVALENCE, NEED, REASON, TEXT = range(10)
QUEUED, DEADLINE, REASON_AT = range(3)  # columns of `times`; without a deadline: inf
MAX_NUMBERS = 20_000  # of what no longer waits, mostly: then they are given anew


class PendingQueue(Slotted):
    """One row for each workload that waits. By slot: ints [S, 10], times [S, 3], is_gated [S], waits [S].

    is_gated: it waits for something else or for a time, so that nothing said of others holds for it.
    """

    columns = ("ints", "times", "is_gated", "waits")

    def __init__(self, size: int) -> None:
        super().__init__()
        size = max(64, size)
        self.ints: Ints = np.zeros((size, 10), dtype=np.int64)
        self.times: Floats = np.zeros((size, 3))
        self.is_gated: Bools = np.zeros(size, dtype=np.bool_)
        self.waits: Bools = np.zeros(size, dtype=np.bool_)
        self.exchanged = 0  # how often a row was: another number, other rows
        self._numbers: dict[Hashable, int] = {}
        self._equivalences: dict[int, str] = {}

    def copy(self) -> "PendingQueue":
        """The same rows, to be changed apart."""
        other = self._copied()
        other.tidy()
        return other

    def tidy(self) -> None:
        """Give numbers anew once most are of what no longer waits."""
        if len(self._numbers) > MAX_NUMBERS + 4 * len(self.slot):
            self._renumber()

    def exchange(self, old: Workload | None, new: Workload | None) -> None:
        """Have a row for this workload as it is now instead of as it was; None: it did not wait, or does no more."""
        self.exchanged += 1
        if new is None:
            if old is not None and (slot := self._give_back(old.id)) is not None:
                self.waits[slot] = False
            return
        slot = self.slot.get(new.id)
        known = None if slot is None else self.slots[slot]
        if slot is None:
            slot = self._take_slot(new)
        self.slots[slot], self.waits[slot] = new, True
        self._fill(slot, new, is_same=known is not None and _asks_alike(known, new))

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def known(self, value: Hashable) -> int:
        """Its number; -1 if nothing in the table has it."""
        return self._numbers.get(value, -1)

    def equivalence(self, slot: int) -> str:
        """The text of `equivalence_of`."""
        return self._equivalences[int(self.ints[slot, EQUIVALENCE])]

    def workload(self, slot: int) -> Workload:
        """Whose row it is."""
        found = self.slots[slot]
        assert found is not None  # noqa: S101 - no caller asks for an empty slot
        return found

    def _fill(self, slot: int, w: Workload, *, is_same: bool) -> None:
        if is_same:
            equivalence, need = (int(value) for value in self.ints[slot, (EQUIVALENCE, NEED)])
        else:
            text, need = equivalence_of(w)
            equivalence = self._number(text)
            self._equivalences[equivalence] = text
        told = self._number(w.reason), self._number((w.reason, w.message))
        keys = w.seq, w.priority, class_of(w), w.attained, w.failures
        self.ints[slot] = (*keys, self._number(("team", w.team)), equivalence, need, *told)
        self.times[slot] = (w.queued_at, np.inf if w.deadline is None else w.deadline, w.reason_at)
        self.is_gated[slot] = bool(w.after or w.unmet) or w.not_before is not None

    def _renumber(self) -> None:
        self._numbers, self._equivalences = {}, {}
        for slot, workload in enumerate(self.slots):
            if workload is not None:
                self._fill(slot, workload, is_same=False)


class TimesLeft:
    """For how long those that wait would run, beside the rows of the pending queue; kept (scheduler/state/memo.py)."""

    def __init__(self) -> None:
        self._of: list[Workload | None] = []  # what the rows held
        self._at: tuple[PendingQueue, int] | None = None  # the queue then, and how often a row of it had changed
        self._left: Floats = np.zeros((0, 2))
        self._by: RunTimes | None = None

    def of(self, pending: PendingQueue, rows: Ints, at: float, times: RunTimes) -> Floats:
        """`RunTimes.left` of the workloads in these rows; shape [rows, 2]."""
        at_queue, exchanged = self._at or (None, 0)
        if self._by is not times or at_queue is not pending or exchanged != pending.exchanged:
            self._follow(pending, times)
        for slot in rows[np.isnan(self._left[rows, 0])].tolist():
            self._left[slot] = times.left(pending.workload(slot), at)
        found: Floats = self._left[rows]
        return found

    def _follow(self, pending: PendingQueue, times: RunTimes) -> None:
        """Keep what holds still: NaN where a row has another workload, or the same one that runs on otherwise."""
        left: Floats = np.full((len(pending.ints), 2), np.nan)
        if self._by is times:
            count = min(len(self._of), len(pending.slots))
            left[:count] = self._left[:count]
            is_same = np.fromiter(map(operator.is_, self._of, pending.slots), dtype=np.bool_, count=count)
            for slot in np.flatnonzero(~is_same).tolist():
                old, new = self._of[slot], pending.slots[slot]
                if old is None or new is None or old.id != new.id or not runs_alike(old, new):
                    left[slot] = np.nan
        self._of, self._left, self._by = [*pending.slots], left, times
        self._at = pending, pending.exchanged


def equivalence_of(workload: Workload) -> tuple[str, int]:
    """A text that is equal for workloads of one team that ask the same in every way placement and quota look at.

    With it the milli-GPU it needs at least.
    """
    ask, gang, near = workload.ask, workload.gang, workload.topology
    is_service = workload.kind is Kind.INFERENCE
    size = (workload.missing,) if is_service else (gang.min, gang.count)
    equivalence = (workload.team, is_service, size, ask, near.require, near.prefer, workload.preemptible)
    more = (*((workload.roles,) if workload.roles else ()), *(("at risk",) if workload.at_risk else ()))
    text = repr((*equivalence, *more))
    return text, workload.need_milli(least(workload))


def _asks_alike(one: Workload, other: Workload) -> bool:
    """Whether two states of a workload have the same equivalence class and need for sure."""
    same = (one.team, one.kind, one.ask, one.gang, one.topology, one.preemptible, one.roles, one.at_risk)
    return same == (
        *(other.team, other.kind, other.ask, other.gang, other.topology, other.preemptible, other.roles),
        other.at_risk,
    ) and (one.placement == other.placement)
