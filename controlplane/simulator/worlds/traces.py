"""Readers of cluster traces: rows of a file become rows of one shape, `TraceJob`.

Two formats are known, told apart by their header; a file of one's own may have either:

- `philly` (Philly, Microsoft): submit_s, duration_s, num_gpus, vc
- `openb` (Alibaba, FGD): name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, creation_time, deletion_time

What the columns become (teams, priorities, kinds, memory, gangs) is in `philly.py` and `openb.py`.
"""

import csv
import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controlplane.simulator.worlds.presets import PresetError

PHILLY_COLUMNS = ("submit_s", "duration_s", "num_gpus", "vc")
OPENB_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "creation_time",
    "deletion_time",
)
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
MAX_GPUS = 4096  # of one row; more is a mistake in the file


@dataclass(frozen=True, slots=True)
class PhillyRow:
    """One job of a Philly-like trace; index is its place in the file."""

    index: int
    at: float
    seconds: float
    gpus: int
    vc: str


@dataclass(frozen=True, slots=True)
class OpenbRow:
    """One pod of an openb-like trace; index is its place in the file."""

    index: int
    at: float
    seconds: float
    cpu_milli: int
    memory: int
    gpus: int
    milli: int  # per GPU
    models: tuple[str, ...]
    qos: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One machine of openb's node list."""

    name: str
    cpu_milli: int
    memory: int
    gpus: int
    model: str


Rows = list[PhillyRow] | list[OpenbRow]
Row = TypeVar("Row")


def read_rows(path: Path) -> Rows:
    """Read a trace of either format, by its header. Raises PresetError naming the line, the column and the fix."""
    lines = _lines(path)
    header = lines[0] if lines else []
    if set(PHILLY_COLUMNS) <= set(header):
        return _rows(path, lines, PHILLY_COLUMNS, _philly)
    if set(OPENB_COLUMNS) <= set(header):
        return _rows(path, lines, OPENB_COLUMNS, _openb)
    wanted = OPENB_COLUMNS if "gpu_milli" in header or "num_gpu" in header else PHILLY_COLUMNS
    missing = next(column for column in wanted if column not in header)
    raise PresetError(
        f"{path} has no column {missing}. Name the columns {','.join(PHILLY_COLUMNS)} or {','.join(OPENB_COLUMNS)} "
        "in its first line."
    )


def read_nodes(path: Path) -> list[NodeRow]:
    """Read openb's node list. Raises PresetError."""
    lines = _lines(path)
    missing = [column for column in NODE_COLUMNS if not lines or column not in lines[0]]
    if missing:
        raise PresetError(
            f"{path} has no column {missing[0]}. Name the columns {','.join(NODE_COLUMNS)} in its first line."
        )
    return _rows(path, lines, NODE_COLUMNS, _node)


def _lines(path: Path) -> list[list[str]]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return list(csv.reader(io.StringIO(content.decode())))
    except FileNotFoundError:
        raise PresetError(
            f"There is no file {path}. Set WEFT_DATA to the folder with the traces, or name a file."
        ) from None
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise PresetError(
            f"{path} cannot be read as CSV ({error}). Use a readable UTF-8 CSV file, or one in gzip."
        ) from None


def _rows(
    path: Path, lines: list[list[str]], columns: tuple[str, ...], make: Callable[[int, Mapping[str, str]], Row]
) -> list[Row]:
    at = {column: lines[0].index(column) for column in columns}
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        if len(line) < len(lines[0]):
            raise PresetError(f"{path} line {number} has {len(line)} columns, its header {len(lines[0])}. Complete it.")
        try:
            rows.append(make(number - 2, {column: line[place].strip() for column, place in at.items()}))
        except _BadCellError as bad:
            raise PresetError(f"{path} line {number}: {bad}") from None
    if not rows:
        raise PresetError(f"{path} has no rows. Add at least one below the header.")
    return rows


class _BadCellError(Exception):
    """A cell that cannot be used: which, and what to write."""


def _philly(index: int, cells: Mapping[str, str]) -> PhillyRow:
    vc = cells["vc"]
    if not vc:
        raise _BadCellError("vc is empty. Name the team.")
    return PhillyRow(
        index,
        _number(cells, "submit_s", 0),
        max(1.0, _number(cells, "duration_s", 0)),
        int(_number(cells, "num_gpus", 0, MAX_GPUS)),
        vc,
    )


def _openb(index: int, cells: Mapping[str, str]) -> OpenbRow:
    created, deleted = _number(cells, "creation_time", 0), _number(cells, "deletion_time", 0)
    if deleted < created:
        raise _BadCellError(f"deletion_time is {deleted:g}, before creation_time. Make it at least {created:g}.")
    return OpenbRow(
        index,
        created,
        max(1.0, deleted - created),
        int(_number(cells, "cpu_milli", 0)),
        int(_number(cells, "memory_mib", 0)),
        int(_number(cells, "num_gpu", 0, MAX_GPUS)),
        int(_number(cells, "gpu_milli", 0, 1000)),
        tuple(model for model in cells["gpu_spec"].split("|") if model),
        cells["qos"],
    )


def _node(_: int, cells: Mapping[str, str]) -> NodeRow:
    return NodeRow(
        cells["sn"],
        int(_number(cells, "cpu_milli", 1)),
        int(_number(cells, "memory_mib", 1)),
        int(_number(cells, "gpu", 0, 64)),
        cells["model"],
    )


def _number(cells: Mapping[str, str], column: str, least: float, most: float = 1e12) -> float:
    text = cells[column]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:  # false for NaN as well
        raise _BadCellError(f"{column} is {text!r}. Write a number from {least:g} to {most:g}.")
    return value
