"""A what-if's answer as lines for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.queries.scheduling import lab

HEAD = (
    "team",
    "jobs",
    "started",
    "wait p50",
    "wait p95",
    "preemptions",
    "utilisation",
    "requests",
    "late",
    "worst p95",
)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What differs, and a row per team: the figures in force -> with the other (difference)."""
    episode = found["episode"]
    gpus = episode["gpus"]
    there = f"{gpus['before']} GPUs" + (f" -> {gpus['after']}" if gpus["after"] != gpus["before"] else "")
    yield f"{episode['work'] or episode['name']}: {episode['jobs']} jobs in {episode['hours']:g} h on {there}"
    for what, before, after in lab.differences(found):
        yield f"  {what}: {before} -> {after}" if before else f"  {what}: {after}"
    yield ""
    rows = [HEAD, *(_cells(row) for row in found["teams"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield f"{found['rounds']['before']} and {found['rounds']['after']} rounds in {found['took_seconds']:g} s."


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 45 s, 12 min, 3.5 h."""
    if seconds is None:
        return "-"
    sign, size = "-" if seconds < 0 else "", abs(seconds)
    if size < 120:
        return f"{sign}{size:.0f} s"
    return f"{sign}{size / 60:.0f} min" if size < 7200 else f"{sign}{size / 3600:.1f} h"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    a, b, d = row["before"], row["after"], row["difference"]

    def pair(name: str, show: Any) -> str:
        if a[name] == b[name]:
            return str(show(a[name]))
        change = "" if d[name] is None else f" ({'+' if d[name] > 0 else ''}{show(d[name])})"
        return f"{show(a[name])} -> {show(b[name])}{change}"

    def count(value: int | None) -> str:
        return "-" if value is None else f"{value:,}"

    def late(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f} %"

    def milliseconds(value: float | None) -> str:
        return "-" if value is None else f"{1000 * value:.0f} ms"

    def points(value: float) -> str:
        return f"{value:.1f} %"

    return (
        row["team"],
        pair("jobs", str),
        pair("started", str),
        pair("wait_p50_seconds", duration),
        pair("wait_p95_seconds", duration),
        pair("preemptions", str),
        pair("utilisation_percent", points),
        pair("requests", count),
        pair("late_percent", late),
        pair("p95_seconds", milliseconds),
    )
