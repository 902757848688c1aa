"""A run's figures with the code and the machine that they belong to, and how they are written down."""

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness.figure import Figure


@dataclass(frozen=True, slots=True)
class Record:
    """One run of a benchmark."""

    benchmark: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    commit: str
    code: Mapping[str, str]  # a hash of each folder that the figures depend on
    date: str  # ISO 8601, UTC
    machine: str
    load: float  # the machine's load average before the run: other work spoils timings
    seeds: tuple[int, ...]


def lines(record: Record) -> list[dict[str, Any]]:
    """One object for each figure, by name. The notes of the run are with the first, and empty with the others."""
    of_run = {
        "commit": record.commit,
        "date": record.date,
        "machine": record.machine,
        "load": record.load,
        "seeds": list(record.seeds),
        "code": dict(sorted(record.code.items())),
    }
    figures = sorted(record.figures, key=lambda one: one.name)
    return [
        {"benchmark": record.benchmark, **asdict(one), "met": one.met, **of_run}
        | {"notes": [] if number else list(record.notes)}
        for number, one in enumerate(figures)
    ]


def records(objects: Iterable[Mapping[str, Any]]) -> dict[str, Record]:
    """The runs, by benchmark, that `lines` made these objects of."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in objects:
        found.setdefault(str(one["benchmark"]), []).append(one)
    return {name: _record(name, figures) for name, figures in sorted(found.items())}


def _record(name: str, objects: list[Mapping[str, Any]]) -> Record:
    first = objects[0]
    names = Figure.__dataclass_fields__
    figures = tuple(Figure(**{key: value for key, value in one.items() if key in names}) for one in objects)
    notes = tuple(note for one in objects for note in one["notes"])
    of_run = {key: first[key] for key in ("commit", "code", "date", "machine", "load")}
    return Record(name, figures, notes, seeds=tuple(first["seeds"]), **of_run)


def machine() -> str:
    """Processor, cores, memory and Python."""
    model = platform.processor() or platform.machine()
    try:
        found = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in found if line.startswith("model name"))
    except (OSError, StopIteration):  # not Linux, or a processor without a name
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
