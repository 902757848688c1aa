"""Small sets of sessions, made by hand."""

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

from controlplane.benchmarks.notebooks.sessions import Cell

FIRST, SECOND = 0, 15 * 1440  # min: where the halves of the month begin


def cells(notebook: str, *pairs: tuple[float, float], memory: int = 1024, endless: float = 1e9) -> Iterator[Cell]:
    """So many seconds of thought before each cell, and seconds of it; then nothing for long."""
    for number, (gap, length) in enumerate(pairs):
        yield Cell(notebook, memory, gap, length, is_first=number == 0)
    yield Cell(notebook, memory, endless, 1.0, is_first=False)


def written(folder: Path, rows: Sequence[tuple[str, int, int]]) -> Path:
    """A folder of shared traces with these runs: session, start and length in minutes."""
    path = folder / "notebooks" / "interactive_training_events.csv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as lines:
        out = csv.writer(lines)
        out.writerow(("session", "start_min", "duration_min", "num_gpus"))
        out.writerows((*row, 1) for row in rows)
    return folder


def month(folder: Path) -> Path:
    """Ten sessions in each half: cells of 2 to 11 minutes, a few minutes apart, with a night in the midst."""
    rows = []
    for half in (FIRST, SECOND):
        for number in range(10):
            at = half + 13 * number
            for cell in range(12):
                length = 2 + (number + cell) % 10
                rows.append((f"s{half}.{number}", at, length))
                at += length + (600 if cell == 6 else 5 + 3 * (cell % 4))
    return written(folder, rows)
