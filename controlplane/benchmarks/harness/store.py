"""The stored figures: docs/figures.json, one figure a line, and docs/figures.md, the table made from it."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from controlplane.benchmarks.harness.figure import Figure
from controlplane.benchmarks.harness.record import Record, lines, records
from controlplane.benchmarks.harness.tree import ROOT

FOLDER = ROOT / "docs"
JSON, TABLE = "figures.json", "figures.md"
HEAD = """\
# Figures

Made from [figures.json](figures.json) by measuring: do not edit it. Each benchmark keeps its newest whole run, with the
commit that was measured and the machine's load average before it began. `make figures` prints the same within two
seconds, and tells which figures are older than the code they measure. `make figures MEASURE=1` measures those and what
is missing, `make figures NAME=start` one benchmark. What each one measures stands at the top of its module in
`controlplane/benchmarks`. Of the traces, only their files are measured: without them such a benchmark refuses to run:
no figure is of a [model](traces.md).
"""
EMPTY = "\nNothing is stored yet.\n"


def stored(folder: Path = FOLDER) -> dict[str, Record]:
    """The stored runs by benchmark; none if there is no file."""
    path = folder / JSON
    return records(json.loads(path.read_text())) if path.exists() else {}


def keep(record: Record, folder: Path = FOLDER) -> None:
    """Store a run in place of the benchmark's older one. What another process stores meanwhile stays."""
    with _alone(folder):
        _write({**stored(folder), record.benchmark: record}, folder)


def remake(folder: Path = FOLDER) -> None:
    """Write both files again from what is stored, as after a merge."""
    with _alone(folder):
        _write(stored(folder), folder)


def written(found: Mapping[str, Record]) -> str:
    """Text of the file: a JSON list with a line for each figure, by benchmark and name."""
    objects = [json.dumps(one, ensure_ascii=False) for _, record in sorted(found.items()) for one in lines(record)]
    return "[\n" + ",\n".join(objects) + "\n]\n" if objects else "[]\n"


def table(found: Mapping[str, Record]) -> str:
    """The stored figures as Markdown."""
    if not found:
        return HEAD + EMPTY
    rows = [_row(figure, record) for _, record in sorted(found.items()) for figure in _by_name(record)]
    titles = ("figure", "value", "goal", "met", "commit", "date", "machine", "load")
    notes = [
        f"\n**{name}**, seeds {', '.join(map(str, record.seeds))}\n\n"
        + "".join(f"- {_no_link(note)}\n" for note in record.notes)
        for name, record in sorted(found.items())
        if record.notes
    ]
    text = HEAD + "\n" + _line(titles) + _line(("---",) * len(titles)) + "".join(rows)
    return text + ("\n## Notes of the runs\n" + "".join(notes) if notes else "")


def goal(figure: Figure) -> str:
    """What is to be reached, in words; empty if nothing is."""
    if figure.goal is None:
        return ""
    if figure.most is not None:
        return f"{figure.goal:g} to {figure.most:g} {figure.unit}"
    return f"{'>=' if figure.higher_is_better else '<='} {figure.goal:g} {figure.unit}"


MET = {True: "yes", False: "NO", None: ""}


def _row(figure: Figure, record: Record) -> str:
    value, when = f"{figure.value:g} {figure.unit}", record.date[:16].replace("T", " ")
    of_run = (f"`{record.commit}`", when, record.machine, f"{record.load:.2f}")
    return _line((f"`{figure.name}`", value, goal(figure), MET[figure.met], *of_run))


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _by_name(record: Record) -> list[Figure]:
    return sorted(record.figures, key=lambda one: one.name)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes that store figures out. The lock is the folder's own, so no file is left behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(found: Mapping[str, Record], folder: Path) -> None:
    _replace(folder / JSON, written(found))
    _replace(folder / TABLE, table(found))


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f"{path.name}.new")  # git's status leaves it out, as all of docs/figures.*
    beside.write_text(text)
    beside.replace(path)


def _no_link(note: str) -> str:
    """The note with what Markdown would take for a link, as a regular expression may have, written otherwise."""
    return note.replace("](", "&#93;(")
