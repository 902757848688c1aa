"""`replay`: recorded jobs through the production loops and services, as fast as they go.

The first 20,000 jobs of the shared Philly file at their own times on 24 x 8 GPUs, in one process with SQLite, until
every one of them has ended. Every submission, decision and usage row passes the services.
"""

import tempfile
from pathlib import Path

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result

JOBS = 20_000
WALL_SECONDS, PEAK_MIB = 600.0, 1024.0


def run(options: Options, progress: Progress) -> Result:
    """Replay and measure. Raises BenchmarkError if the trace is absent or a job has not ended."""
    jobs = options.jobs or JOBS
    with tempfile.TemporaryDirectory(prefix="weft-replay-") as home:
        summary = {}
        for line in processes.lines(Path(home), "simulate", "--replay", str(jobs), "--json"):
            if "part" in line:
                progress(line["part"], line["text"])
            else:
                summary = line
    if summary["ended"] != jobs:
        raise BenchmarkError(f"Only {summary['ended']} of {jobs} jobs ended: {summary['phases']}.")
    return Result(
        (
            Figure("replay.wall_seconds", round(summary["wall_seconds"], 1), "s", WALL_SECONDS),
            Figure("replay.peak_mib", round(summary["peak_mib"], 1), "MiB", PEAK_MIB),
        ),
        (
            f"{jobs} jobs, {summary['rounds']} rounds, {summary['cluster_days']:.1f} days of the cluster's clock",
            f"phases {summary['phases']}",
            f"digest of all workloads and usage: {summary['digest']}",
        ),
    )
