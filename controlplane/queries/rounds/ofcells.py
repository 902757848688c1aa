"""What a web process keeps of each cell, or of the cluster that is one cell, until there are other cells."""

from typing import Generic, TypeVar

from scheduler.model.cell import Cell, CellView

Value = TypeVar("Value")


class OfCells(Generic[Value]):
    """One value a cell, of the cells that were asked about last."""

    def __init__(self) -> None:
        self._kept: dict[CellView | None, Value] = {}

    def get(self, view: CellView | None) -> Value | None:
        """What is kept of this cell."""
        return self._kept.get(view)

    def keep(self, view: CellView | None, value: Value) -> Value:
        """Keep this of the cell, and nothing of cells that are not beside it."""
        there = {one: old for one, old in list(self._kept.items()) if _cells(one) == _cells(view)}
        self._kept = {**there, view: value}
        return value


def _cells(view: CellView | None) -> tuple[Cell, ...]:
    return () if view is None else view.cells
