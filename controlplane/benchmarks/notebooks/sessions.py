"""Real notebook sessions, and what one seed draws of them: whose cells begin when, and how much memory they need.

A place for a notebook is always taken: it replays a session drawn at random, then another one. At time 0 it is in the
midst of one, drawn by how long sessions last.
"""

import csv
import gzip
import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from controlplane.benchmarks.harness.figure import BenchmarkError

MINUTE, DAY = 60.0, 86_400.0
HALF = 15  # days of the first half, on which all constants were chosen
HUMAN = 120  # min: a session with a longer cell is a training in disguise
GIB = 1024  # MiB
MEDIAN, SIGMA, LEAST, MOST = 6.0, 0.6, 2.0, 24.0  # GiB of GPU memory of a notebook: lognormal, cut


@dataclass(frozen=True, slots=True)
class Session:
    """cells: seconds of thought before each one, 0 of the first; and seconds of a GPU that it takes."""

    cells: tuple[tuple[float, float], ...]

    @property
    def seconds(self) -> float:
        """From its first cell to the end of its last one, where none waits."""
        return sum(gap + length for gap, length in self.cells)


@dataclass(frozen=True, slots=True)
class Cell:
    """notebook: its name, another one for each session; gap: s of thought before it; length: s of a whole GPU."""

    notebook: str
    memory: int  # MiB
    gap: float
    length: float
    is_first: bool


def load(data: Path, which: str, half: int) -> tuple[Session, ...]:
    """The sessions of the set `human` or `all` with what they did in half 1 or 2 of the month.

    Raises BenchmarkError where the file is missing.
    """
    path = data / "notebooks" / "interactive_training_events.csv.gz"
    if not path.exists():
        raise BenchmarkError(f"{path} is missing. Set WEFT_DATA to the folder with the shared traces.")
    found: dict[str, list[tuple[int, int]]] = {}
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            start, length = int(row["start_min"]), int(row["duration_min"])
            if (start * MINUTE < HALF * DAY) == (half == 1):
                found.setdefault(row["session"], []).append((start, length))
    return of_set([_session(cells) for _, cells in sorted(found.items())], which)


def of_set(sessions: Sequence[Session], which: str) -> tuple[Session, ...]:
    """Those of a set. Raises ValueError."""
    if which not in ("human", "all"):
        raise ValueError(f"set: {which!r} is neither human nor all")
    limit = HUMAN * MINUTE if which == "human" else math.inf
    return tuple(one for one in sessions if max(length for _, length in one.cells) <= limit)


def _session(cells: Sequence[tuple[int, int]]) -> Session:
    made, last = [], cells[0][0]
    for start, length in cells:
        made.append((max(0, start - last) * MINUTE, length * MINUTE))
        last = max(last, start) + length
    return Session(tuple(made))


class Population:
    """Sessions to draw from."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        """At least one."""
        self._sessions = tuple(sessions)
        self._ends = tuple(accumulate(one.seconds for one in sessions))

    def replayed(self, seed: int, place: int) -> Iterator[Cell]:
        """What the notebooks of one place do, without end; the gap of the first cell is what is left of it at time 0.

        A cell that runs at time 0 begins anew.
        """
        rng = random.Random(f"{seed}:{place}")  # noqa: S311 - a load, not a secret
        at = rng.random() * self._ends[-1]
        index = bisect_right(self._ends, at)
        session = self._sessions[index]
        number, skipped = 0, at - (self._ends[index] - session.seconds)
        while True:
            name = f"{place}.{number}"
            memory = round(GIB * min(MOST, max(LEAST, MEDIAN * math.exp(SIGMA * rng.gauss(0.0, 1.0)))))
            is_first = True
            for gap, length in session.cells:
                if skipped >= gap + length:
                    skipped -= gap + length
                    continue
                yield Cell(name, memory, max(0.0, gap - skipped), length, is_first)
                skipped, is_first = 0.0, False
            session, number, skipped = rng.choice(self._sessions), number + 1, 0.0


def deleted(cells: Iterator[Cell], after: float) -> Iterator[Cell]:
    """The same by a user who deletes the notebook before each gap that is longer than that, and makes it again."""
    times = 0
    for cell in cells:
        times += cell.gap > after
        yield replace(cell, notebook=f"{cell.notebook}:{times}") if times else cell
