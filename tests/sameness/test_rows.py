"""The tables after a simulated day of the demo, seed 0, are those recorded before, but for the table of words.

The whole day takes minutes, so it is compared every night. CI compares what the log says of the day's first hours: each
change of a phase, with its round, its reason and its message.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.sameness import rows, store, words

HOURS = 6


@cache
def recorded() -> dict[str, list[dict[str, Any]]]:
    """The tables of before."""
    found: dict[str, list[dict[str, Any]]] = store.read("rows")
    return found


def simulated(home: Path, seconds: float) -> dict[str, list[dict[str, Any]]]:
    """The tables after the first seconds of the demo's first day."""
    made = home / "tables.json"
    command = [sys.executable, "-m", "tests.sameness.recording", "tables", str(seconds), str(made)]
    subprocess.run(command, check=True, env={**os.environ, "WEFT_HOME": str(home)})
    found: dict[str, list[dict[str, Any]]] = json.loads(made.read_text())
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_log_of_the_first_hours_of_the_demo_says_the_same(tmp_path: Path) -> None:
    seconds = HOURS * 3600.0
    before = words.translate(rows.log_until(recorded(), seconds))
    assert len(before) > 1000
    assert store.difference(before, rows.log_until(simulated(tmp_path, seconds), seconds)) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_tables_after_a_day_of_the_demo_are_the_same(tmp_path: Path) -> None:
    now = simulated(tmp_path, rows.DAY)
    before = words.translate(recorded())
    assert now.keys() == before.keys()
    assert {name: told for name, found in now.items() if (told := store.difference(before[name], found))} == {}


def others(table: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A recorded table with one planted difference: in each column of its last row, without the row, with it twice."""
    for column, value in table[-1].items():
        other = deepcopy(list(table))
        other[-1][column] = f"{value} planted" if isinstance(value, str | None) else [value]
        yield column, other
    yield "a row less", list(table[:-1])
    yield "a row more", [*table, table[-1]]


@pytest.mark.parametrize("name", ["Workload", "Event", "Action", "Quota"])
def test_one_other_value_of_a_recorded_row_is_seen(name: str) -> None:
    table = recorded()[name][-50:]
    assert store.difference(table, deepcopy(table)) == []
    for planted, other in others(table):
        assert store.difference(table, other) != [], planted


def test_one_other_message_of_a_recorded_row_is_seen() -> None:
    table = recorded()["Event"][:500]
    said = next(number for number, row in enumerate(table) if row["message"])
    other = [*table[:said], {**table[said], "message": f"{table[said]['message']} "}, *table[said + 1 :]]
    assert store.difference(table, other) != []
