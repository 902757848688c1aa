"""Figures for people: progress while they are measured, then a table."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controlplane.benchmarks.harness import figure
from controlplane.benchmarks.harness.figure import Figure
from controlplane.benchmarks.harness.record import Record
from controlplane.benchmarks.harness.store import MET, goal

LINE_SECONDS = 10.0  # between two plain lines, where no terminal could redraw one


def object_of(one: Figure) -> dict[str, object]:
    """A figure as `--json` prints it."""
    return {"name": one.name, "value": one.value, "unit": one.unit, "goal": one.goal, "most": one.most, "met": one.met}


@contextmanager
def progress_on(name: str, *, quiet: bool = False) -> Iterator[figure.Progress]:
    """Show progress on stderr: a bar on a terminal, else a line now and then; nothing at all if quiet."""
    if quiet:
        yield lambda part, text: None
    elif sys.stderr.isatty():
        columns = (
            TextColumn("{task.fields[name]}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting", total=1.0, name=name)
            yield lambda part, text: bar.update(task, completed=part, description=text)
    else:
        yield _plain(name)


@dataclass(frozen=True, slots=True)
class Shown:
    """A run to print, and what is to be said of its age; neither, if nothing was measured."""

    record: Record | None
    remark: str = ""

    @property
    def is_current(self) -> bool:
        """Whether the figures are of the code as it is now."""
        return self.record is not None and not self.remark


def table(found: Mapping[str, Shown], out: TextIO) -> None:
    """Print figures by benchmark with their goals, and where, when and on what they were measured."""
    rows = Table()
    for column in ("figure", "value", "goal", "met", "commit", "date", "load", ""):
        right = column in ("value", "goal", "load")
        rows.add_column(column, justify="right" if right else "left", no_wrap=column != "")
    for name, one in found.items():
        record = one.record
        if record is None:
            rows.add_row(name, *[""] * 6, one.remark)
            continue
        when = record.date[:16].replace("T", " ")
        of_run = (record.commit, when, f"{record.load:.2f}", one.remark)
        for each in record.figures:
            rows.add_row(each.name, f"{each.value:g} {each.unit}", goal(each), MET[each.met], *of_run)
    console = Console(file=out, width=None if out.isatty() else 180, highlight=False)
    console.print(rows)
    for name, one in found.items():
        if one.record is not None:
            _print_run(name, one.record, console)


def _print_run(name: str, record: Record, console: Console) -> None:
    seeds = ", ".join(map(str, record.seeds))
    console.print(f"{name}: {record.machine}; load average {record.load:.2f} before; seeds {seeds}", markup=False)
    for note in record.notes:
        console.print(f"  {note}", markup=False)


def _plain(name: str) -> figure.Progress:
    last = [-LINE_SECONDS]

    def show(part: float, text: str) -> None:
        if time.monotonic() - last[0] >= LINE_SECONDS:
            last[0] = time.monotonic()
            print(f"{name}: {part:.0%} {text}", file=sys.stderr, flush=True)

    return show
