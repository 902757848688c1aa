"""Rows as a small file: columns of JSON, each written the shortest of a few ways, compressed.

JSON in a column is kept as text, which need not be parsed to write it into a database.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEMO = Path(__file__).with_name("demo-week.json.gz")
FEW = 4  # a column with this many times more rows than different values names each value once


Table = Mapping[str, Sequence[Any]]  # plain JSON values by column, all columns of one length


@dataclass(frozen=True, slots=True)
class Past:
    """What a world had become at one moment: its identity, from when until when (cluster clock), and its rows."""

    world: str
    since: float
    until: float
    tables: Mapping[str, Table]


def write(past: Past) -> bytes:
    """The file. The same rows give the same bytes."""
    tables = {
        name: {"rows": length(table), "columns": {column: _shortest(list(table[column])) for column in table}}
        for name, table in past.tables.items()
    }
    document = {"world": past.world, "since": past.since, "until": past.until, "tables": tables}
    return gzip.compress(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(), 9, mtime=0)


def read_past(packed: bytes) -> Past:
    """What `write` wrote."""
    document = json.loads(gzip.decompress(packed))
    tables = {name: _table(written) for name, written in document["tables"].items()}
    return Past(document["world"], document["since"], document["until"], tables)


def length(table: Table) -> int:
    """How many rows it has."""
    return len(next(iter(table.values())))


def _table(written: Mapping[str, Any]) -> Table:
    return {name: _values(column, written["rows"]) for name, column in written["columns"].items()}


def _shortest(values: list[Any]) -> dict[str, Any]:
    """One value for all; or each value once; or whole numbers as differences; or as they are."""
    distinct = {value: i for i, value in enumerate(dict.fromkeys(values))}
    if len(distinct) == 1:
        return {"all": values[0]}
    if _is_whole(values):
        return {"steps": [int(b) - int(a) for a, b in zip([0, *values], values, strict=False)]}
    if len(distinct) * FEW <= len(values):
        return {"of": list(distinct), "at": [distinct[value] for value in values]}
    return {"each": values}


def _is_whole(values: Sequence[Any]) -> bool:
    """Whether all are whole numbers, so that a float may be told as an integer: columns know their type."""
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and value == int(value) for value in values
    )


def _values(column: Mapping[str, Any], rows: int) -> list[Any]:
    match column:
        case {"all": value}:
            return [value] * rows
        case {"steps": steps}:
            return _summed(steps)
        case {"of": of, "at": at}:
            return [of[i] for i in at]
        case _:
            return list(column["each"]) if rows else []


def _summed(steps: Sequence[int]) -> list[int]:
    values, at = [], 0
    for step in steps:
        at += step
        values.append(at)
    return values
