"""`admission`: how many workloads a second are admitted and finished, in Kueue's generator shape, without pods.

A worker with the production loops on Postgres and Redis, and a process that submits as the generator creates, in
batches of a tenth of a second. Every workload passes the services: submission, quota, decision, commit, outbox,
observation, usage. The worker hears of what runs and ends as on Kubernetes, by the adapter's informer (watched.py).

Settings are production's. It is one worker and no beat, since what stands for the API server is in the worker's memory;
the other worker would stand by, and a beat repeats what the loops' periods do.
"""

import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

import psycopg

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.scheduling import podless
from controlplane.testbed import postgres
from controlplane.testbed.processes import running, wait_for
from controlplane.testbed.redis import redis_server

GOAL = 100.0  # Kueue's own published run: 42.7/s
GIVE_UP_SECONDS = 900.0
TURNAROUND = """
    SELECT extract(epoch FROM ended.at - submitted.at) FROM controlplane_event submitted
    JOIN controlplane_event ended ON ended.workload = submitted.workload AND ended.kind = 'Succeeded'
    WHERE submitted.kind = 'Submitted'
"""
ENDED = "SELECT count(*) FROM controlplane_workload WHERE phase = 'Succeeded'"
SPAN = """
    SELECT extract(epoch FROM max(at) FILTER (WHERE kind = 'Succeeded') - min(at) FILTER (WHERE kind = 'Submitted'))
    FROM controlplane_event
"""
ROUNDS = "SELECT count(*), avg(took_ms), max(took_ms) FROM controlplane_cycle WHERE loop = 'schedule'"


def run(options: Options, progress: Progress) -> Result:
    """Generate, wait until all have ended, count. Raises BenchmarkError."""
    part = 1.0 if options.jobs is None else options.jobs / podless.TOTAL
    total = len(podless.arrivals(part))
    with tempfile.TemporaryDirectory(prefix="weft-admission-") as name, ExitStack() as stack:
        folder = Path(name)
        env = _servers(stack, folder)
        prepared = processes.run(env, "benchmark_process", "admission-prepare")
        worker = stack.enter_context(
            running(processes.manage("benchmark_process", "admission-worker"), log=folder / "worker.log", env=env)
        )
        with psycopg.connect(env["DATABASE_URL"], autocommit=True) as database:
            _await_loops(database, worker, folder / "worker.log")
            submit = processes.manage("benchmark_process", "admission-submit", "--part", str(part))
            submitter = stack.enter_context(running(submit, log=folder / "submit.log", env=env))
            _await_end(database, total, progress, {folder / "worker.log": worker, folder / "submit.log": submitter})
            return _result(database, total, prepared)


def _servers(stack: ExitStack, folder: Path) -> dict[str, str]:
    """Postgres as it comes, durable, and Redis; the environment of our processes on them."""
    server = stack.enter_context(postgres.prepared({}))
    process = stack.enter_context(running(server.command, log=server.log, user=server.user))
    wait_for(process, server.answers, "Postgres", server.log)
    url = postgres.create_database(server.url, "weft")
    redis_url = stack.enter_context(redis_server())
    return processes.production(folder, DATABASE_URL=url, REDIS_URL=redis_url)


def _await_loops(database: Any, worker: Any, log: Path) -> None:
    def are_there() -> bool:
        (count,) = database.execute("SELECT count(*) FROM controlplane_heartbeat WHERE at IS NOT NULL").fetchone()
        return bool(count >= 5)

    wait_for(worker, are_there, "the loops", log)


def _await_end(database: Any, total: int, progress: Progress, ours: Mapping[Path, "Popen[bytes]"]) -> None:
    began = time.monotonic()
    while time.monotonic() - began < GIVE_UP_SECONDS:
        (ended,) = database.execute(ENDED).fetchone()
        progress(ended / total, f"{ended} of {total} finished after {time.monotonic() - began:.0f} s")
        if ended >= total:
            return
        for log, process in ours.items():
            if process.poll() not in (None, 0):
                raise BenchmarkError(f"{log.stem} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        time.sleep(1.0)
    raise BenchmarkError(f"Not all had ended after {GIVE_UP_SECONDS:g} s.")


def _result(database: Any, total: int, machine: Mapping[str, Any]) -> Result:
    (span,) = database.execute(SPAN).fetchone()
    times = sorted(float(seconds) for (seconds,) in database.execute(TURNAROUND).fetchall())
    rounds, mean, longest = database.execute(ROUNDS).fetchone()
    return Result(
        (
            Figure(
                "admission.admissions_per_second", round(total / float(span), 1), "1/s", GOAL, higher_is_better=True
            ),
            Figure("admission.turnaround_p99_seconds", round(times[int(len(times) * 0.99) - 1], 2), "s"),
        ),
        (
            f"{total} workloads in {float(span):.1f} s; turnaround median {statistics.median(times):.2f} s",
            f"{rounds} rounds of the scheduler with decisions: {mean:.0f} ms on average, {longest:.0f} ms at most",
            f"Postgres {machine['postgres']}, fsync on; the worker, the submitter, Postgres and Redis on this machine",
            "Kueue's own run: 42.7/s on a machine of its own; its jobs' run times cap the rate at 227/s",
        ),
    )
