"""`interposer`: our back-end for shares, the library and its daemon, on a fake driver with one simulated GPU.

The GPU's time is simulated, the rest is real: processes, the preloaded library, the daemon, sockets and the clock. So
it tells what the library and the token cost and how exactly they divide; no figure is from a real GPU. Median of three
runs; of what may never happen the worst.

- `launch_ns`: what the library adds to a launch while the token is there.
- `overhead_percent`: what it adds to a step of 20 ms, alone on the GPU, with kernels of 50 us to 10 ms: the worst.
- `gpu_busy_percent`: how much of its time the GPU works for two to four clients that always have work: the least.
- `share_error_p95_points`: those clients, with 30/70, 20/30/50 and 10/20/30/40 % and kernels of 50 us to 10 ms: in each
  second the largest difference between what one had and its part; the 95th percentile of the worst set.
  `share_error_10s_points`: the largest over any 10 s.
- `limit_percent`: what a share with a limit of 30 % has in 10 s, alone on the GPU.
- `cell_50_p95_ms`, `cell_200_ratio`: a cell of 50 ms, and one of 200 ms, of a share of 20 % beside one of 80 % that
  always has work, with kernels of 1 ms: the 95th percentile, and that over the same cell alone. `cell_long_ratio`:
  beside kernels of 10 ms, over 1.05 times the cell alone and 25 ms: the worse of both.
- `memory_over_limit`: of 10,000 allocations by four threads, and as many by three processes of one share, how many took
  the share above its limit, or failed with another error than the driver's own; also while there is no daemon.
- `killed_client_ms`: how long after the end of the one that has the token another one computes: the longest of five.
  `leaked_bytes`: what is still counted of the memory of killed processes.
- `daemon_gap_ms`: how long a client stands still when the daemon is killed. `daemon_back_s`: when, after its restart, a
  second begins in which the shares are within 3 points again.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.sharing import enforced
from controlplane.enforcer import build
from controlplane.testbed.fakecuda import device
from controlplane.testbed.processes import MissingError

RUNS = 3
NEVER = ("memory_over_limit", "leaked_bytes")  # the worst of all runs, not the median
# Name, unit, goal, whether more is better, the most that it may be.
FIGURES: tuple[tuple[str, str, float, bool, float | None], ...] = (
    ("launch_ns", "ns", 150.0, False, None),
    ("overhead_percent", "%", 1.0, False, None),
    ("gpu_busy_percent", "%", 97.0, True, None),
    ("share_error_p95_points", "points", 3.0, False, None),
    ("share_error_10s_points", "points", 1.0, False, None),
    ("limit_percent", "%", 28.5, False, 30.0),
    ("cell_50_p95_ms", "ms", 60.0, False, None),
    ("cell_200_ratio", "x", 1.1, False, None),
    ("cell_long_ratio", "x", 1.0, False, None),
    ("memory_over_limit", "", 0.0, False, None),
    ("killed_client_ms", "ms", 100.0, False, None),
    ("leaked_bytes", "bytes", 0.0, False, None),
    ("daemon_gap_ms", "ms", 500.0, False, None),
    ("daemon_back_s", "s", 2.0, False, None),
)
EXPERIMENTS: tuple[Callable[[enforced.Node], dict[str, float]], ...] = (
    enforced.launches,
    enforced.overhead,
    enforced.shares,
    enforced.limit,
    enforced.cells,
    enforced.memory,
    enforced.killed,
    enforced.restarted,
)


def run(options: Options, progress: Progress) -> Result:
    """Build all, and run each experiment on a node of its own."""
    runs, found = options.repeat or RUNS, list[dict[str, float]]()
    with tempfile.TemporaryDirectory(prefix="interposer-") as folder:
        try:
            (Path(folder) / "driver").mkdir()
            built = device.build(Path(folder) / "driver")
            library = build.build(Path(folder) / "library")
        except (MissingError, build.BuildError) as error:
            raise BenchmarkError(str(error)) from error
        for number in range(runs):
            values: dict[str, float] = {}
            for place, experiment in enumerate(EXPERIMENTS):
                done = (number + place / len(EXPERIMENTS)) / runs
                progress(done, f"run {number + 1} of {runs}: {experiment.__name__}")
                values |= experiment(enforced.Node(Path(folder) / f"{number}-{place}", built, library))
            found.append(values)
    return Result(tuple(_figure(found, *one) for one in FIGURES), tuple(_notes(found)))


def _figure(
    found: list[dict[str, float]], name: str, unit: str, goal: float, higher: bool, most: float | None
) -> Figure:
    values = [values[name] for values in found]
    value = max(values) if name in NEVER else statistics.median(values)
    return Figure(f"interposer.{name}", round(value, 3), unit, goal, higher, most)


def _notes(found: list[dict[str, float]]) -> list[str]:
    named = {name for name, *_ in FIGURES}
    lines = [f"{name} in each run: {_listed(found, name)}" for name, *_ in FIGURES]
    return lines + [f"{name}: {_listed(found, name)}" for name in found[0] if name not in named]


def _listed(found: list[dict[str, float]], name: str) -> str:
    return ", ".join(f"{values[name]:.4g}" for values in found)
