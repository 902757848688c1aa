"""Cells: parts of a cluster that are decided for apart from each other."""

from collections.abc import Sequence
from dataclasses import dataclass

REST = ""  # the cell of what no other one names; the only one where there are none


@dataclass(frozen=True, slots=True)
class Cell:
    """The node pools and racks that one decider decides for. A rack is told by its name, in whichever zone it is."""

    name: str
    pools: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()


def cell_of(cells: Sequence[Cell], pool: str, rack: str) -> str:
    """The cell of a node: the one that names its rack, else the one that names its pool, else REST."""
    for cell in cells:
        if rack and rack in cell.racks:
            return cell.name
    return next((cell.name for cell in cells if pool in cell.pools), REST)


def names(cells: Sequence[Cell]) -> tuple[str, ...]:
    """All cells there are, REST first."""
    return (REST, *(cell.name for cell in cells))


@dataclass(frozen=True, slots=True)
class CellView:
    """What the decider of one cell sees, of several."""

    cell: str
    cells: tuple[Cell, ...]

    def has(self, pool: str, rack: str) -> bool:
        """Whether a node of this pool and rack is its own."""
        return cell_of(self.cells, pool, rack) == self.cell
