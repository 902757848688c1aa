"""The cell of a workload: one whose nodes could hold all of it when empty, where its team is least crowded."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpushare.gpu import WHOLE
from scheduler.model.cell import REST

OF_THE_REST = "rest"


@dataclass(frozen=True, slots=True)
class Room:
    """One cell as it is for one workload, by the nodes that the workload may use; milli-GPU where nothing else is said.

    allowed: what its team may ever hold there, None without a limit. left: what its team may still take there now,
    beyond what it holds and has waiting; negative if that is more than it may. free: capacity less what all hold and
    ask for there.
    """

    cell: str
    holds: bool  # whether its empty nodes hold all workers at once
    capacity: int
    free: int
    allowed: int | None = None
    left: int | None = None

    def could_ever_start(self, need: int) -> bool:
        """Whether it could start there once nothing else is there."""
        return self.holds and (self.allowed is None or need <= self.allowed)

    def emptiness(self, need: int) -> float:
        """How much is left for its team once it is there, as a ratio of the cell; the more, the better."""
        left = self.free if self.left is None else min(self.free, self.left)
        return (left - need) / self.capacity if self.capacity else 0.0


class NoCellError(Exception):
    """No cell can ever start it; the message says what each has, and what to do."""


def route(need: int, rooms: Sequence[Room], what: str, named: str | None = None) -> str:
    """The cell of a workload of `need` milli-GPU. what: its ask in words. named: the cell that its user chose.

    Where its team may hold so much in no cell, it waits in one until its quota is raised, as in a cluster that is one
    cell. Raises NoCellError. Ties go to the first by name.
    """
    holding = [room for room in rooms if room.holds and named in (None, room.cell)]
    fitting = [room for room in holding if room.could_ever_start(need)] or holding
    if fitting:
        return min(fitting, key=lambda room: (-room.emptiness(need), room.cell)).cell
    if named is not None:
        found = [room for room in rooms if room.cell == named]
        raise NoCellError(f"Cell {shown(named)} could never hold {what}: {_had(found, need)}. {_fix(rooms)}")
    raise NoCellError(f"No cell could ever hold {what}: {_had(rooms, need)}. {_fix(rooms)}")


def shown(cell: str) -> str:
    """A cell's name for readers."""
    return cell or OF_THE_REST


def cell_named(text: str) -> str:
    """The cell that readers call so."""
    return REST if text == OF_THE_REST else text


def _had(rooms: Sequence[Room], need: int) -> str:
    found = [f"{shown(room.cell)} has {_of(room, need)}" for room in rooms if room.capacity or not need]
    return ", ".join(found) or "none has nodes for it"


def _of(room: Room, need: int) -> str:
    gpus = f"{room.capacity / WHOLE:g} such GPUs"
    return gpus if room.capacity < need else f"{gpus}, not placed as it asks"


def _fix(rooms: Sequence[Room]) -> str:
    able = [shown(room.cell) for room in rooms if room.holds]
    return (
        f"Name cell {' or '.join(able)}, or leave the cell out." if able else "Ask for less, or have the cells changed."
    )
