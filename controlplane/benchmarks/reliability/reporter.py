"""`reporter`: what `weft.report(...)` takes of a training's step, by the processor's time of the training's process.

A process of its own imports the one file as an image would have it, and reports steps of changing times with all
values, by both ways: served as Prometheus text, and appended to a file. Of some rounds the median counts, and the
slowest stands beside it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result

STEPS, ROUNDS = 20_000, 9
GOAL = 10.0  # microseconds
FILE = Path(__file__).resolve().parents[3] / "weft" / "reporter.py"
WAYS = {"served": {"WEFT_REPORT_PORT": "0"}, "appended": {"WEFT_REPORT_FILE": "counts"}}
PROGRAM = """
import importlib.util, json, sys, time
spec = importlib.util.spec_from_file_location("reporter", sys.argv[1])
reporter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reporter)
steps, rounds = int(sys.argv[2]), int(sys.argv[3])
times = [0.1 + i / 1e6 for i in range(steps)]
took = []
for _ in range(rounds):
    began = time.process_time()
    for one in times:
        reporter.report(step_time=one, data_wait=0.01, sync_time=0.02, samples=32, gradient_noise=400.0)
    took.append((time.process_time() - began) / steps * 1e6)
assert f'weft_training_steps_total{{local_rank="0"}} {steps * rounds}' in reporter.text(), reporter.text()
print(json.dumps(took))
"""


def run(options: Options, progress: Progress) -> Result:
    """Report steps in processes of their own. Raises BenchmarkError."""
    rounds = options.repeat or ROUNDS
    found: dict[str, list[float]] = {}
    for number, (way, variables) in enumerate(WAYS.items()):
        progress(number / len(WAYS), f"{rounds} times {STEPS:,} steps, {way}")
        found[way] = _measured(rounds, variables)
    worst = max(statistics.median(took) for took in found.values())
    notes = tuple(
        f"{way}: median {statistics.median(took):.2f}, slowest {max(took):.2f} us a step, of {rounds} rounds"
        for way, took in found.items()
    )
    return Result((Figure("reporter.report_microseconds", round(worst, 2), "us", GOAL),), notes)


def _measured(rounds: int, variables: dict[str, str]) -> list[float]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_REPORT")}
    with tempfile.TemporaryDirectory(prefix="weft-reporter-") as folder:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(FILE), str(STEPS), str(rounds)],
            cwd=folder, env={**env, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise BenchmarkError(f"The program that reports ended with {done.returncode}:\n{done.stderr}")
    took: list[float] = json.loads(done.stdout)
    return took
