"""The cells of a policy as people write them: `{north: {pools: [a100], racks: [r001]}}`. Free of the database."""

import re
from collections.abc import Iterable, Mapping, Sequence

from scheduler.cells.route import OF_THE_REST
from scheduler.model.cell import Cell

LONGEST_NAME = 20
PARTS = ("pools", "racks")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")


def cells_of(value: Mapping[str, Mapping[str, Sequence[str]]]) -> tuple[Cell, ...]:
    """The cells of a mapping without problems, by name: databases keep no order of keys."""
    return tuple(
        Cell(name, tuple(value[name].get("pools", ())), tuple(value[name].get("racks", ()))) for name in sorted(value)
    )


def plain(cells: Iterable[Cell]) -> dict[str, dict[str, list[str]]]:
    """The mapping that `cells_of` reads."""
    return {cell.name: {"pools": list(cell.pools), "racks": list(cell.racks)} for cell in cells}


def problem(path: str, value: object) -> str:
    """What is wrong with the cells and what to do; empty if nothing."""
    if not isinstance(value, Mapping):
        return f"{path} is {value!r}. Give an object of cells by name, such as {{north: {{racks: [r001, r002]}}}}."
    for name, cell in value.items():
        if wrong := _of_name(path, name) or _of_cell(f"{path}.{name}", cell):
            return wrong
    return _twice(path, value)


def _of_name(path: str, name: object) -> str:
    if isinstance(name, str) and len(name) <= LONGEST_NAME and _NAME.fullmatch(name) and name != OF_THE_REST:
        return ""
    return (
        f"{path} has a cell {name!r}. Name it with small letters, digits and hyphens, at most {LONGEST_NAME}, not rest."
    )


def _of_cell(path: str, cell: object) -> str:
    if not isinstance(cell, Mapping) or set(cell) - set(PARTS):
        return f"{path} is {cell!r}. Give an object with the lists pools and racks."
    for part, names in cell.items():
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
            return f"{path}.{part} is {names!r}. Give a list of names."
    if not any(cell.values()):
        return f"{path} names no pool and no rack. Name some, or remove the cell."
    return ""


def _twice(path: str, value: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    for part in PARTS:
        seen: dict[str, str] = {}
        for cell, named in value.items():
            for name in named.get(part, ()):
                if name in seen:
                    also = "twice" if seen[name] == cell else f"in {seen[name]} and in {cell}"
                    return f"{path} names the {part[:-1]} {name} {also}. Name it in one cell, once."
                seen[name] = cell
    return ""
