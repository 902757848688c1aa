"""Results kept in the data folder, with the code and the machine they belong to."""

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from controlplane.benchmarks.figure import Figure, Result

CODE = ("gpushare", "scheduler", "autoscaler", "controlplane", "frontend")


@dataclass(frozen=True, slots=True)
class Record:
    """One stored run."""

    benchmark: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    commit: str
    code: str  # of the code's folders as git knows them; another one makes the record stale
    date: str
    machine: str
    load: float  # the machine's load average before the run: other work spoils timings
    seeds: tuple[int, ...]

    @property
    def is_stale(self) -> bool:
        """Whether the code has changed since, or had changes of its own then."""
        return self.code != code() or self.code.endswith("+changes")


def keep(benchmark: str, result: Result, seeds: tuple[int, ...], load: float, *, is_whole: bool = True) -> Record:
    """Store a run's figures in place of the benchmark's older ones; a part of a run is only returned."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(benchmark, result.figures, result.notes, commit(), code(), date, machine(), load, seeds)
    if not is_whole:
        return record
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{benchmark}.json").write_text(json.dumps(asdict(record), indent=1) + "\n")
    return record


def kept(benchmark: str) -> Record | None:
    """The stored run of a benchmark."""
    path = _folder() / f"{benchmark}.json"
    if not path.exists():
        return None
    values: dict[str, Any] = json.loads(path.read_text())
    figures = tuple(Figure(**figure) for figure in values.pop("figures"))
    return Record(figures=figures, notes=tuple(values.pop("notes")), seeds=tuple(values.pop("seeds")), **values)


def commit() -> str:
    """The commit of the checkout; empty outside one."""
    return _git("rev-parse", "--short=12", "HEAD")


def code() -> str:
    """What tells the code apart: git's hashes of its folders, marked if there are changes not committed."""
    hashes = _git("rev-parse", *(f"HEAD:{folder}" for folder in CODE)).split()
    changed = _git("status", "--porcelain", "--", *CODE)
    return "-".join(part[:8] for part in hashes) + ("+changes" if changed or not hashes else "")


def machine() -> str:
    """Processor, cores, memory and Python."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # not Linux, or a processor without a name
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def _folder() -> Path:
    folder: Path = settings.DATA_DIR / "figures"
    return folder


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607  git is found as the user's shell finds it
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
