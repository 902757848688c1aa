"""`page`: how long the dashboard and the list of workloads take with 8,000 workloads."""

import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

import httpx

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result

PORT = 8766
WORKLOADS = 8000
FIRST_BYTE_SECONDS = 0.5
VISITS = 9  # the median of these counts, after one that fills caches
PAGES = {"dashboard": "/", "workloads": "/workloads/"}


def run(options: Options, progress: Progress) -> Result:
    """Fill a database through the services, stop its clock, and visit."""
    with tempfile.TemporaryDirectory(prefix="weft-page-") as folder:
        home = Path(folder)
        for line in processes.lines(home, "simulate", "--workloads", str(options.jobs or WORKLOADS), "--json"):
            if "part" in line:
                progress(line["part"] * 0.8, line["text"])
            else:
                filled = line
        with processes.weft(PORT, home=home) as weft:
            weft.ready()
            with closing(weft.sign_in()) as client:
                times = {name: _median(client, path) for name, path in PAGES.items()}
            weft.stop()
    figures = tuple(
        Figure(f"page.{name}_first_byte_seconds", round(seconds, 3), "s", FIRST_BYTE_SECONDS)
        for name, seconds in times.items()
    )
    return Result(figures, (f"{sum(filled['phases'].values())} workloads: {filled['phases']}",))


def _median(client: httpx.Client, path: str) -> float:
    return statistics.median([_first_byte(client, path) for _ in range(VISITS + 1)][1:])


def _first_byte(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    with client.stream("GET", path) as answer:
        next(answer.iter_raw(1))
        seconds = time.perf_counter() - began
        answer.raise_for_status()
    return seconds
