"""`round-large`: how long a scheduling round takes on 50,000 GPUs, from changed rows in Postgres to the commit.

6,250 nodes of two GPU models, 200 teams that own both in equal parts and may borrow, so much work that about 24,000
run and 5,000 wait. One process fills the cluster and ends; another takes over: its first round reads, counts and
decides everything. Then before each round 1 % of what runs ends and as much arrives; then, from rest, 0.1 %; then
single events, as in `round`. The same on a fifth of the machines, for how the processor time of a round grows. At last
a process decides some of the stored rounds again without what rounds keep (again.py).

It is apart from `round`, as it takes half an hour: `round --gpus N` measures the same at another size. Peak memory is
that of the process that decides, with the cluster that it drives; processor time is that process's, without Postgres.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.databases import on_postgres
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result, quantile
from controlplane.benchmarks.scheduling.roundload import GPUS

LARGE, PART = 50_000, 5  # GPUs; the small cluster is so many times smaller
ROUNDS = 100  # of each turnover, and as many events
LEAST = 1000  # GPUs: with fewer, teams own less than one each
GOALS = {
    "large_p99_seconds": 1.0,
    "large_slow_turnover_p99_seconds": 0.6,
    "large_event_p99_seconds": 0.05,
    "large_peak_mib": 800.0,
    "cpu_ratio_large_to_small": 5.0,
    "large_takeover_cpu_seconds": 4.0,
    "large_replay_differences": 0.0,
}

Found = Mapping[str, Any]


def run(options: Options, progress: Progress) -> Result:
    """Measure at the size asked for and at a fifth of it. Raises BenchmarkError."""
    gpus, count = options.gpus or LARGE, options.jobs or ROUNDS
    if gpus < LEAST * PART or gpus % (GPUS * PART):
        raise BenchmarkError(f"--gpus {gpus}: give a multiple of {GPUS * PART}, {LEAST * PART} or more.")
    small = _measured(gpus // PART, count, options.seeds[0], lambda what: progress(0.0, what))
    large = _measured(gpus, count, options.seeds[0], lambda what: progress(0.2, what))
    return result(gpus, large, small)


def result(gpus: int, large: Found, small: Found) -> Result:
    """The figures of both clusters; they have goals at the size that the benchmark is named for."""
    ratio = statistics.mean(large["rounds"]["cpu_seconds"]) / statistics.mean(small["rounds"]["cpu_seconds"])
    found = {
        "large_p99_seconds": (round(_p99(large["rounds"]), 3), "s"),
        "large_slow_turnover_p99_seconds": (round(_p99(large["slow"]), 3), "s"),
        "large_event_p99_seconds": (round(_p99(large["events"]), 4), "s"),
        "large_peak_mib": (round(large["mib"]), "MiB"),
        "cpu_ratio_large_to_small": (round(ratio, 2), "x"),
        "large_takeover_cpu_seconds": (round(large["takeover"]["cpu_seconds"], 2), "s"),
        "large_replay_differences": (large["again"]["different"] + large["again"]["other_inputs"], "rounds"),
    }
    goals = GOALS if gpus == LARGE else {}
    figures = (Figure(f"round.{name}", *value, goals.get(name)) for name, value in found.items())
    return Result(tuple(figures), (*_notes(gpus // PART, small), *_notes(gpus, large)))


def _measured(gpus: int, count: int, seed: int, tell: Callable[[str], None]) -> Found:
    size = ("--nodes", str(gpus // GPUS), "--count", str(count), "--seed", str(seed))
    with on_postgres() as env:
        tell(f"{gpus} GPUs are filled")
        filled = processes.run(env, "benchmark_process", "large-fill", *size)
        tell(f"rounds on {gpus} GPUs with {filled['running']} running, {filled['waiting']} waiting")
        found = processes.run(env, "benchmark_process", "large-rounds", *size)
        tell(f"rounds on {gpus} GPUs are decided again")
        return {**found, "again": processes.run(env, "benchmark_process", "large-again")}


def _notes(gpus: int, found: Found) -> list[str]:
    takeover, again = found["takeover"], found["again"]
    return [
        f"{gpus} GPUs, {found['running']} running, {found['waiting']} wait; peak {found['mib']:.0f} MiB",
        _note(f"{gpus} GPUs, 1 % turnover", found["rounds"]),
        _note(f"{gpus} GPUs, 0.1 % turnover", found["slow"]),
        _note(f"{gpus} GPUs, events", found["events"]),
        f"{gpus} GPUs, the first round after a takeover: {takeover['seconds']:.2f} s, {takeover['cpu_seconds']:.2f} s "
        f"of processor time, {takeover['changes']} changes",
        f"{gpus} GPUs, decided again without what rounds keep, by numpy: {again['rounds']} rounds, "
        f"{again['decisions']} decisions, {again['different']} rounds decide otherwise, {again['other_inputs']} saw "
        f"something else; {again['seconds']:.2f} s each",
    ]


def _note(what: str, took: Mapping[str, Sequence[float]]) -> str:
    seconds, cpu, changes = took["seconds"], took["cpu_seconds"], took["changes"]
    return (
        f"{what}: {len(seconds)} rounds of {statistics.mean(changes):.0f} changes (most {max(changes):.0f}), "
        f"{statistics.mean(took['placed']):.0f} fewer wait, median {statistics.median(seconds) * 1000:.0f} ms, p99 "
        f"{_p99(took) * 1000:.0f} ms; processor time median {statistics.median(cpu) * 1000:.0f} ms, p99 "
        f"{quantile(cpu, 0.99) * 1000:.0f} ms"
    )


def _p99(took: Mapping[str, Sequence[float]]) -> float:
    return quantile(took["seconds"], 0.99)
