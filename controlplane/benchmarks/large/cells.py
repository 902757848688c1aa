"""`cells`: four cells of 50,000 GPUs, each with a decider of its own, on one Postgres.

The cluster and its work are those of `round-large`, four times as large, the racks in four cells by turns. Four
processes decide, each for its cell; on a machine with two cores two of them at a time, as four would only wait for
each other. Before each turn 1 % of what runs ends and as much arrives. Then one decider is killed while another process
stands by: how long until that has taken its cell over and decided for it, while the others go on. At last all live
workloads must be in the snapshot of exactly one decider, and no device may be held twice.

What cells cost is measured where one decider is enough: a day on 20,000 GPUs as one cell and as four (cellsday.py).
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.databases import on_postgres
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result, quantile
from controlplane.benchmarks.large.cellsday import DAY, STEP
from controlplane.benchmarks.large.cellsload import CELLS
from controlplane.benchmarks.scheduling.roundload import ENDING, GPUS
from scheduler.cells.route import shown
from scheduler.model.cell import REST

ALL, DAY_GPUS, ROUNDS = 200_000, 20_000, 50
AT_ONCE = 2  # deciders that decide at the same time: the cores there are
RACKS = 25 * GPUS  # GPUs of a rack: each cell needs one
GOALS = {"round_p99_seconds": 1.0, "takeover_seconds": 15.0, "lost": 0, "twice": 0, "started_gpu_hours_ratio": 0.98}


class Peer:
    """A process that answers line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def tell(self, do: str, **said: Any) -> None:
        """Ask, without waiting for the answer."""
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps({"do": do, **said}) + "\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The answer to the last question. Raises BenchmarkError if the process has ended."""
        line = self.process.stdout.readline() if self.process.stdout is not None else ""
        if not line:
            raise BenchmarkError(
                f"A process of the benchmark ended with {self.process.wait()}; see its messages above."
            )
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, do: str, **said: Any) -> dict[str, Any]:
        """Ask and wait."""
        self.tell(do, **said)
        return self.answer()


@contextmanager
def peer(env: Mapping[str, str], part: str, size: tuple[str, ...], cell: str = "") -> Iterator[Peer]:
    """Such a process, killed at the end. cell: what it decides for; empty: all."""
    command = processes.manage("benchmark_process", part, *size)
    with subprocess.Popen(
        command, env={**env, "WEFT_CELLS": cell}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Peer(process)
        finally:
            process.kill()


def run(options: Options, progress: Progress) -> Result:
    """Measure at the size asked for. Raises BenchmarkError."""
    gpus, count = options.gpus or ALL, options.jobs or ROUNDS
    if gpus < len(CELLS) * RACKS or gpus % GPUS:
        raise BenchmarkError(f"--gpus {gpus}: give a multiple of {GPUS}, {len(CELLS) * RACKS} or more.")
    seed = options.seeds[0]
    found = _decided(gpus, count, seed, progress)
    small = min(gpus, DAY_GPUS)
    steps = round(DAY / STEP) if options.jobs is None else count
    days = {}
    for number, name in enumerate(("one", "four")):
        progress(0.6 + 0.2 * number, f"a day on {small} GPUs, decided for by {name}")
        size = ("--nodes", str(small // GPUS), "--count", str(steps), "--seed", str(seed))
        with on_postgres() as env:
            days[name] = processes.run(env, "benchmark_process", f"cells-day-{name}", *size)
    return result(gpus, found, days)


def _decided(gpus: int, count: int, seed: int, progress: Progress) -> dict[str, Any]:
    size = ("--nodes", str(gpus // GPUS), "--count", str(count), "--seed", str(seed))
    with on_postgres() as env, ExitStack() as stack:
        progress(0.0, f"{gpus} GPUs in {len(CELLS)} cells are filled")
        filled = processes.run(env, "benchmark_process", "cells-fill", *size)
        driver = stack.enter_context(peer(env, "cells-drive", size))
        chosen = {cell: f"{cell},{shown(REST)}" if cell == min(CELLS) else cell for cell in CELLS}
        deciders = {cell: stack.enter_context(peer(env, "cells-decide", size, of)) for cell, of in chosen.items()}
        for cell, one in deciders.items():  # the first round of each reads everything
            one.ask("take", cell=cell)
        driver.ask("act")
        progress(0.3, f"rounds with {filled['running']} running, {filled['waiting']} waiting")
        took: dict[str, list[float]] = {cell: [] for cell in CELLS}
        for _ in range(count):
            now = driver.ask("turn", ratio=ENDING)["now"]
            _turn(deciders, now, lambda cell, said: took[cell].append(said["seconds"]))
            driver.ask("act")
        progress(0.5, "one decider is killed")
        standby = stack.enter_context(peer(env, "cells-decide", size))
        standby.ask("round", now=now)  # as it would have stood by all the time
        taken = _taken_over(deciders, standby, driver)
        seen = sum(one.ask("seen")["seen"] for one in (*deciders.values(), standby))
        return {**filled, "took": took, **taken, "seen": seen, **driver.ask("check")}


def _turn(deciders: Mapping[str, Peer], now: float, note: Callable[[str, Mapping[str, Any]], None]) -> None:
    """One round of each, some at a time."""
    names = sorted(deciders)
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        for cell in some:
            deciders[cell].tell("round", now=now)
        for cell in some:
            note(cell, deciders[cell].answer())


def _taken_over(deciders: dict[str, Peer], standby: Peer, driver: Peer) -> dict[str, Any]:
    """Kill the first decider; the others go on meanwhile. `deciders` is without it then."""
    cell = min(deciders)
    dead, began = deciders.pop(cell), time.monotonic()
    dead.process.kill()
    found: dict[str, Any] = {}

    def wait() -> None:
        found["cells"] = standby.ask("take", cell=cell)["cells"]
        found["takeover_seconds"] = time.monotonic() - began

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    turns = 0
    while waiting.is_alive():
        now = driver.ask("turn", ratio=ENDING / 10)["now"]
        _turn(deciders, now, lambda _cell, _said: None)
        driver.ask("act")
        turns += 1
    if "takeover_seconds" not in found:
        raise BenchmarkError("The process that stood by ended. See its messages above.")
    now = driver.ask("turn", ratio=ENDING)["now"]
    for _ in range(2):  # what was decided while others read is read once more
        _turn({**deciders, cell: standby}, now, lambda _cell, _said: None)
        driver.ask("act")
    _turn({**deciders, cell: standby}, now, lambda _cell, _said: None)
    return {"takeover_seconds": found["takeover_seconds"], "taken": found["cells"], "turns": turns}


def result(gpus: int, found: Mapping[str, Any], days: Mapping[str, Mapping[str, Any]]) -> Result:
    """The figures; they have goals at the size that the benchmark is made for."""
    one, four = days["one"], days["four"]
    values = {
        "round_p99_seconds": (round(max(quantile(took, 0.99) for took in found["took"].values()), 3), "s"),
        "takeover_seconds": (round(found["takeover_seconds"], 1), "s"),
        "lost": (abs(found["live"] - found["seen"]), ""),
        "twice": (found["twice"], ""),
        "started_gpu_hours_ratio": (round(four["gpu_hours"] / one["gpu_hours"], 4), ""),
    }
    goals = GOALS if gpus == ALL else {}
    higher = {"started_gpu_hours_ratio"}
    figures = tuple(
        Figure(f"cells.{name}", *value, goals.get(name), higher_is_better=name in higher)
        for name, value in values.items()
    )
    return Result(figures, (*_notes(gpus, found), *(_day(name, day) for name, day in days.items())))


def _notes(gpus: int, found: Mapping[str, Any]) -> list[str]:
    rounds = [
        f"{cell}: {len(took)} rounds, median {quantile(took, 0.5):.3f} s, p99 {quantile(took, 0.99):.3f} s"
        for cell, took in found["took"].items()
    ]
    return [
        f"{gpus} GPUs in {len(CELLS)} cells, {found['running']} running, {found['waiting']} wait; "
        f"{AT_ONCE} deciders at a time",
        *rounds,
        f"{', '.join(map(shown, found['taken']))} was taken over after {found['takeover_seconds']:.1f} s; "
        f"the others had {found['turns']} turns meanwhile",
    ]


def _day(name: str, day: Mapping[str, Any]) -> str:
    return (
        f"{day['hours']:.1f} hours by {name}: {day['jobs']} jobs, {day['gpu_hours']:.0f} GPU-hours, waits p50 "
        f"{day['wait_p50'] / 60:.1f} min, p99 {day['wait_p99'] / 60:.1f} min, evenness of teams {day['evenness']:.4f}"
    )
