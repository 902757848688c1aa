"""`storage`: what a workload costs on the disk after half a year, and what pruning costs the scheduler.

A day of the demo is simulated by the production's loops on Postgres, in slots of a minute, as in the demo's own week.
Its rows are multiplied (storagerows.py) to a million workloads over 180 days, with a row of the audit log for each.
They come in parts of 15 days. After each the retention is applied with its default settings, as it would have been at
the end of those days, and VACUUM does what autovacuum would some minutes later: it frees space for new rows and gives
none back. So the files are as large as they would be where retention has been on since the first day. Nothing is made
anew by VACUUM FULL, CLUSTER or REINDEX.

After the last part the loop `prune` works it off in a thread of its own, as in a worker, while one workload after the
other is submitted, decided about by a round of the schedule loop, which is timed, and stopped. Blocks of rounds with
and without pruning take turns. Postgres is as it comes, with fsync. `bytes_per_workload` is the whole database.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.testbed import postgres
from controlplane.testbed.processes import running, wait_for

WORKLOADS = 1_000_000
MAX_BYTES, MIN_ROWS, MAX_RATIO = 8_000, 5_000, 1.2
MIB = 2**20


def run(options: Options, progress: Progress) -> Result:
    """Measure. Raises BenchmarkError."""
    count = options.jobs or WORKLOADS
    progress(0.0, f"{count} workloads over 180 days")
    with tempfile.TemporaryDirectory(prefix="weft-storage-") as name, ExitStack() as stack:
        server = stack.enter_context(postgres.prepared({}))
        process = stack.enter_context(running(server.command, log=server.log, user=server.user))
        wait_for(process, server.answers, "Postgres", server.log)
        url = postgres.create_database(server.url, "weft")
        env = processes.production(Path(name), DATABASE_URL=url, CLUSTER="simulated")
        found = processes.run(
            env, "benchmark_process", "storage", "--count", str(count), "--seed", str(options.seeds[0])
        )
    return _result(found)


def _result(found: Mapping[str, Any]) -> Result:
    quiet, beside = _p99(found["quiet"]), _p99(found["beside"])
    return Result(
        (
            Figure("storage.bytes_per_workload", round(found["database_bytes"] / found["workloads"]), "B", MAX_BYTES),
            Figure(
                "storage.rows_per_second_pruned",
                round(found["rows"] / found["seconds"]),
                "rows/s",
                MIN_ROWS,
                higher_is_better=True,
            ),
            Figure("storage.round_p99_ratio", round(beside / quiet, 3), "", MAX_RATIO),
        ),
        (
            f"{found['workloads']} workloads, {found['copies']} copies of a day of {found['each_day']}; the day took "
            f"{found['day_seconds']:.0f} s, its copies {found['fill_seconds']:.0f} s; the database has "
            f"{found['database_bytes'] / MIB:.0f} MiB",
            "MiB by table: " + ", ".join(f"{name} {size / MIB:.0f}" for name, size in found["sizes"].items()),
            f"rows pruned in all: {found['pruned']}; beside rounds {found['rows']} in {found['seconds']:.1f} s",
            f"{len(found['quiet'])} rounds each: p99 {quiet * 1000:.1f} ms, with pruning {beside * 1000:.1f} ms",
        ),
    )


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[max(0, -(-len(values) * 99 // 100) - 1)]
