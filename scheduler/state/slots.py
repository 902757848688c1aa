"""Tables of workloads whose rows keep their numbers: a row that becomes free is given to the next one that comes."""

from copy import copy
from typing import ClassVar, Self

import numpy as np

from scheduler.model.workload import Workload


class Slotted:
    """A table of columns. slot: the row of each workload, by id; slots: the workload of each row."""

    columns: ClassVar[tuple[str, ...]] = ()  # names of the arrays that have an entry for each row

    def __init__(self) -> None:
        self.slot: dict[str, int] = {}
        self.slots: list[Workload | None] = []
        self._idle: list[int] = []

    def _copied(self) -> Self:
        """Another with rows of its own; what else it has is shared."""
        other = copy(self)
        other.slot, other.slots, other._idle = dict(self.slot), [*self.slots], [*self._idle]
        for name in self.columns:
            setattr(other, name, getattr(self, name).copy())
        return other

    def _take_slot(self, workload: Workload) -> int:
        """A row for this workload; what stands in it is another's, or zeros."""
        slot = self._idle.pop() if self._idle else self._new_slot()
        self.slot[workload.id], self.slots[slot] = slot, workload
        return slot

    def _give_back(self, uid: str) -> int | None:
        """The row that the workload had, which is free now; None if it had none."""
        slot = self.slot.pop(uid, None)
        if slot is not None:
            self.slots[slot] = None
            self._idle.append(slot)
        return slot

    def _new_slot(self) -> int:
        self.slots.append(None)
        for name in self.columns:
            column = getattr(self, name)
            if len(self.slots) > len(column):
                setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        return len(self.slots) - 1
