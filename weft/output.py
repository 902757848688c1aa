"""What the CLI prints: aligned tables for people, stable JSON and YAML for programs, errors on stderr."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TextIO

GAP = "   "
DIM, BOLD, RED, GREEN, YELLOW, BLUE, PLAIN = "2", "1", "31", "32", "33", "34", ""
COLOUR_OF_PHASE = {
    **dict.fromkeys(("Running", "Scaling", "Succeeded"), GREEN),
    **dict.fromkeys(("Failed", "Rejected", "Expired", "Degraded"), RED),
    **dict.fromkeys(("Preempted", "Checkpointing", "Suspended", "Suspending", "Held"), YELLOW),
    **dict.fromkeys(("Admitted", "Starting", "Reserved"), BLUE),
}


class Format(StrEnum):
    """How an answer is printed; `name` is one `team/name` a line."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_text(self) -> bool:
        """Whether it is for people."""
        return self in (Format.TABLE, Format.WIDE)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its head and how a row's cell is read; wide ones only show with -o wide."""

    head: str
    cell: Callable[[Any], str]
    wide: bool = False
    right: bool = False


def show(rows: Sequence[Any], columns: Sequence[Column], form: Format, *, one: bool = False, empty: str = "") -> None:
    """Print answers (weft.answers) in the form asked for; `one` prints an object, not a list."""
    if form in (Format.JSON, Format.YAML):
        documents = [row.document for row in rows]
        dump(documents[0] if one else documents, form)
    elif form == Format.NAME:
        for row in rows:
            say(getattr(row, "path", None) or row.name)
    elif rows:
        say(table(rows, columns, form))
    elif empty:
        note(empty)


def dump(document: Any, form: Format) -> None:
    """Print a document as JSON or YAML, fields in the server's order."""
    if form == Format.YAML:
        import yaml

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False)
    else:
        text = json.dumps(document, indent=2, ensure_ascii=False)
    say(text.rstrip("\n"))


def table(rows: Sequence[Any], columns: Sequence[Column], form: Format = Format.TABLE, *, head: bool = True) -> str:
    """Return an aligned table; on a terminal the last column is cut to the width, and phases are coloured."""
    shown = [column for column in columns if form == Format.WIDE or not column.wide]
    cells = [[clean(column.cell(row)) for column in shown] for row in rows]
    heads = [[column.head for column in shown]] if head else []
    widths = [max(len(line[i]) for line in [[c.head for c in shown], *cells]) for i in range(len(shown))]
    lines = [_aligned(line, shown, widths) for line in [*heads, *cells]]
    if is_terminal(sys.stdout):
        most = shutil.get_terminal_size().columns
        lines = [line if len(line) <= most or form == Format.WIDE else line[: most - 1] + "…" for line in lines]
    if not has_colour(sys.stdout):
        return "\n".join(lines)
    return "\n".join([*(paint(line, BOLD) for line in lines[: len(heads)]), *map(_phases, lines[len(heads) :])])


def pairs(items: Iterable[tuple[str, str]]) -> str:
    """Return `Name:  value` lines, aligned."""
    kept = [(name, clean(value, keep="\n")) for name, value in items if value]
    width = max((len(name) for name, _ in kept), default=0) + 1
    return "\n".join(f"{name + ':':<{width}}  {value}" for name, value in kept)


def say(text: str) -> None:
    """Print a line that is the answer (stdout)."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line beside the answer (stderr)."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def error(text: str) -> None:
    """Print what went wrong (stderr)."""
    note(f"{paint('error:', RED) if has_colour(sys.stderr) else 'error:'} {clean(text)}")


def stdout() -> TextIO:
    """Return where answers go."""
    return sys.stdout


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at this stream."""
    return stream.isatty()


def has_colour(stream: TextIO) -> bool:
    """Whether colour is wanted there (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    """Return the text in an ANSI colour."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def mark(ok: bool | None) -> str:
    """Return the check, the cross, or the dash of what was not looked at."""
    signs = ("✓", "✗", "–") if _can_write("✓✗–") else ("+", "x", "-")
    sign = signs[2] if ok is None else signs[0] if ok else signs[1]
    return paint(sign, DIM if ok is None else GREEN if ok else RED) if has_colour(sys.stdout) else sign


def clean(text: str, keep: str = "") -> str:
    """Take control characters out: what a job or a colleague wrote must not steer this terminal."""
    return "".join(c for c in text if c.isprintable() or c in keep) if not text.isprintable() else text


def log_text(text: str) -> str:
    """Return a log line as it is for a program, and without control characters for a terminal."""
    return clean(text, keep="\t") if is_terminal(sys.stdout) else text


def gpus(milli: int | None) -> str:
    """Return milli-GPU as GPUs: 1500 is 1.5; - is not known."""
    return "-" if milli is None else f"{milli / 1000:g}"


def size(worker: Mapping[str, Any]) -> str:
    """Return CPU and memory of a worker: `8 cores and 64 GiB`."""
    cpu, mib = worker.get("cpu_milli") or 0, worker.get("memory_mib") or 0
    memory = f"{mib / 1024:g} GiB" if mib >= 1024 else f"{mib} MiB"
    return f"{cpu / 1000:g} {'core' if cpu == 1000 else 'cores'} and {memory}"


def memory(mib: int | None) -> str:
    """Return MiB in the larger unit: 80 GiB; - is not known."""
    if mib is None:
        return "-"
    return f"{mib / 1024:.1f}".removesuffix(".0") + " GiB" if mib >= 1024 else f"{mib} MiB"


def measured(milli: int | None) -> str:
    """Return measured milli-GPU as GPUs, to the tenth that a measurement is good for."""
    return "-" if milli is None else f"{milli / 1000:.1f}"


def span(seconds: float | None) -> str:
    """Return a duration as people read it: 45s, 12m, 3h05m, 2d4h; - is not known."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86400
    if whole < 3600:
        return f"{minutes}m"
    if not days:
        return f"{hours}h{minutes:02}m"
    return f"{days}d{hours}h"


def since(then: str | None, now: str | None) -> str:
    """Return the time between two ISO times."""
    if not then or not now:
        return "-"
    return span((_time(now) - _time(then)).total_seconds())


def as_of(then: str | None, now: str | None) -> str:
    """Return of when an answer is, if that is more than a second ago; else nothing."""
    is_old = then and now and (_time(now) - _time(then)).total_seconds() > 1
    return f"As of the last full round, {since(then, now)} ago." if is_old else ""


def clock(iso: str | None) -> str:
    """Return an ISO time to the second: 2026-01-01 09:30:00."""
    return f"{_time(iso):%Y-%m-%d %H:%M:%S}" if iso else "-"


def expected(start: Mapping[str, Any]) -> str:
    """Return an expected start with its interval."""
    ends = (clock(start.get(name)) for name in ("median", "low", "high"))
    return "Expected to start at {} (80 % interval: {} to {}).".format(*ends)


def plural(count: int, noun: str) -> str:
    """Return `1 worker`, `2 workers`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def say_suggestions(suggestions: Sequence[Mapping[str, Any]], none: str = "", name: str = "") -> None:
    """Print what would start a workload now, a line each; `none` says why there is nothing.

    name: of the workload, for the command that applies them; empty where there is none yet.
    """
    if none:
        say(f"  {clean(none)}")
    if suggestions:
        say("  Any one of these would start it now:")
    for one in suggestions:
        was_tried = "tested" if one.get("is_smallest") else "tested; less may be enough"
        kind = f"{one.get('kind')}: " if name and one.get("may_apply") else ""
        said = f" ({was_tried})" if one.get("tested") else ""
        say(f"  - {kind}{clean(str(one.get('text')))}{said}")
    kinds = [str(one.get("kind")) for one in suggestions if one.get("may_apply")]
    if name and kinds:
        say(f"  To apply one: weft suggestion {name} {kinds[0] if len(kinds) == 1 else '|'.join(kinds)}")


def leaver(one: Mapping[str, Any]) -> str:
    """Return which workload is evicted, and why; of other teams only the team is named."""
    who = f"{one.get('team')}/{one['name']}" if one.get("name") else f"a workload of team {one.get('team')}"
    return f"{who} ({one.get('reason')})"


def _aligned(line: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = [
        f"{text:>{width}}" if column.right else f"{text:<{width}}"
        for text, column, width in zip(line, columns, widths, strict=True)
    ]
    return GAP.join(cells).rstrip()


def _phases(line: str) -> str:
    for phase, colour in COLOUR_OF_PHASE.items():
        if f" {phase} " in f"{line} ":
            return line.replace(phase, paint(phase, colour), 1)
    return line


def _time(iso: str) -> datetime:
    return datetime.fromisoformat(iso)


def _can_write(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
