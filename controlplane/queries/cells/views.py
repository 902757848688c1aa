"""Whose snapshot to read for a workload, and all there are; None is the whole of a cluster that is one cell."""

from collections.abc import Sequence
from typing import Protocol

from controlplane.models import Node, Workload, bulk
from controlplane.queries.scheduling import policies
from scheduler.cells.route import cell_named, shown
from scheduler.model.cell import Cell, CellView, cell_of, names


def named(cell: str) -> CellView | None:
    """The view of a cell."""
    return _view(cell, policies.scheduling().cells)


def of_workload(uid: str) -> CellView | None:
    """The view of the cell in which a workload is."""
    cells = policies.scheduling().cells
    found = Workload.objects.filter(pk=uid).values_list("cell", flat=True).first() if cells else None
    return _view(found or "", cells)


def every() -> tuple[CellView | None, ...]:
    """The views of all cells."""
    cells = known()
    return tuple(CellView(name, cells) for name in names(cells)) if cells else (None,)


def for_new(named_by_user: str | None, models: Sequence[str]) -> tuple[CellView | None, ...]:
    """The views of the cells in which a new workload may go: where most GPUs of these models are (none: any) first."""
    cells = known()
    if not cells or named_by_user is not None:
        return (_view(cell_named(named_by_user or ""), cells),)
    gpus = dict.fromkeys(names(cells), 0)
    for pool, rack, model, count, nodes in bulk.count(Node, ("pool__name", "rack", "gpu_model", "gpu_count")):
        gpus[cell_of(cells, pool, rack)] += count * nodes if not models or model in models else 0
    return tuple(CellView(name, cells) for name in sorted(gpus, key=lambda name: (-gpus[name], name)))


def known() -> tuple[Cell, ...]:
    """The cells that have a name; none where there is one only."""
    return policies.scheduling().cells


def shown_names() -> list[str]:
    """All cells there are as readers know them, by name; none where there is one only."""
    cells = known()
    return sorted(map(shown, names(cells))) if cells else []


class Placed(Protocol):
    """A machine as far as its cell depends on it."""

    @property
    def pool(self) -> str:
        """Its node pool."""

    @property
    def rack(self) -> str:
        """Its rack; may be empty."""


def of_node(node: Placed, cells: tuple[Cell, ...]) -> dict[str, str]:
    """What is told of a machine beside the rest: its cell, where there are cells."""
    return {"cell": shown(cell_of(cells, node.pool, node.rack))} if cells else {}


def _view(cell: str, cells: tuple[Cell, ...]) -> CellView | None:
    return CellView(cell, cells) if cells else None
