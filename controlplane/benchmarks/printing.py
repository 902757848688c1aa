"""Figures for people: progress while they are measured, then a table."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controlplane.benchmarks import figure
from controlplane.benchmarks.figure import Figure
from controlplane.benchmarks.record import Record

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


def table(records: Sequence[Record]) -> None:
    """Print figures with their goals, and where, when and on what they were measured."""
    shown = Table()
    for column in ("figure", "value", "goal", "met", "commit", "date"):
        shown.add_column(column, justify="right" if column in ("value", "goal") else "left", no_wrap=column == "figure")
    for record in records:
        for one in record.figures:
            goal = _goal(one)
            met = {True: "yes", False: "NO", None: ""}[one.met]
            stale = " (stale)" if record.is_stale else ""
            shown.add_row(one.name, f"{one.value:g} {one.unit}", goal, met, record.commit + stale, record.date[:16])
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(shown)
    for record in records:
        seeds = ", ".join(map(str, record.seeds))
        console.print(f"{record.benchmark}: {record.machine}; load average {record.load:.2f} before; seeds {seeds}")
        for note in record.notes:
            console.print(f"  {note}", highlight=False)


def _goal(one: Figure) -> str:
    if one.goal is None:
        return ""
    if one.most is not None:
        return f"{one.goal:g} to {one.most:g} {one.unit}"
    return f"{'>=' if one.higher_is_better else '<='} {one.goal:g} {one.unit}"


def _plain(name: str) -> figure.Progress:
    last = [-LINE_SECONDS]

    def show(part: float, text: str) -> None:
        if time.monotonic() - last[0] >= LINE_SECONDS:
            last[0] = time.monotonic()
            print(f"{name}: {part:.0%} {text}", file=sys.stderr, flush=True)

    return show
