"""`gateway`: how many requests a second one core of the activator serves, and what it adds to their latency.

The activator runs on one core, as `manage.py activator` does in production. Its clients and the replicas, which answer
with 1 KiB at once, share the other core, in the runs through the activator as in those that go direct. Requests come at
Poisson times over 64 kept connections, and each latency counts from when the request was due. Direct and through the
activator take turns at the same rate; what is added is the difference of their p99, the median of the repetitions. The
figure is the highest rate at which at most 5 ms were added, nothing failed and all was answered in time.
"""

import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.serving.gatewayload import CONNECTIONS, Load, Server, send
from controlplane.testbed.processes import wait_until

GOAL_PER_SECOND, GOAL_MS = 2000.0, 5.0
RATES = (1000, 2000, 2500, 3000, 3500, 4000, 4500, 5000)
REPEAT, SECONDS, WARM_SECONDS = 3, 8.0, 2.0
PORTS, ADMIN, REPLICAS = 28_100, 28_110, (28_111, 28_112)
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Step:
    """One rate: what was added to the p50 and p99, ms; the p99 direct and through, ms; answered a second; failed."""

    rate: float
    added_p50: float
    added_p99: float
    direct: float
    through: float
    answered: float
    failed: int
    processor: float  # us of the activator's processor time a request

    @property
    def holds(self) -> bool:
        """Whether the rate was served as it should be."""
        return self.added_p99 <= GOAL_MS and not self.failed and self.answered >= 0.98 * self.rate


def run(options: Options, progress: Progress) -> Result:
    """Rate after rate until one does not hold. Raises BenchmarkError."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchmarkError("Two cores are needed: one for the activator, one for its load. Use a larger machine.")
    before = os.getloadavg()[0]
    steps: list[Step] = []
    os.sched_setaffinity(0, {cores[-1]})
    try:
        with _activator(cores[0]) as keeper:
            for number, rate in enumerate(RATES):
                progress(number / len(RATES), f"{rate} requests a second")
                steps.append(asyncio.run(_step(rate, options.repeat or REPEAT, keeper)))
                if not steps[-1].holds:
                    break
    finally:
        os.sched_setaffinity(0, set(cores))
    return _result(steps, before)


async def _step(rate: float, repeat: int, keeper: int) -> Step:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Server, "127.0.0.1", port) for port in REPLICAS]
    pairs: list[tuple[Load, Load]] = []
    used = 0.0
    await send(PORTS, rate, WARM_SECONDS, seed=99)
    for seed in range(repeat):
        direct = await send(REPLICAS[0], rate, SECONDS, seed)
        before = _processor(keeper)
        pairs.append((direct, await send(PORTS, rate, SECONDS, seed)))
        used += _processor(keeper) - before
    for server in servers:
        server.close()

    def added(part: float) -> float:
        return 1000 * statistics.median(through.quantile(part) - direct.quantile(part) for direct, through in pairs)

    return Step(
        rate, added(0.5), added(0.99),
        1000 * statistics.median(direct.quantile(0.99) for direct, _ in pairs),
        1000 * statistics.median(through.quantile(0.99) for _, through in pairs),
        statistics.median(len(through.seconds) / through.wall for _, through in pairs),
        sum(sum(through.errors.values()) for _, through in pairs),
        1e6 * used / max(1, sum(len(through.seconds) for _, through in pairs)),
    )  # fmt: skip


@contextmanager
def _activator(core: int) -> Iterator[int]:
    """One on this core; its process that holds the sockets."""
    with tempfile.TemporaryDirectory(prefix="weft-gateway-") as folder:
        services = Path(folder) / "services.json"
        replicas = [f"127.0.0.1:{port}" for port in REPLICAS]
        row = {"workload": "benchmark", "port": PORTS, "slots": CONNECTIONS, "replicas": replicas}
        services.write_text(json.dumps({"services": [row]}))
        command = [
            sys.executable, "manage.py", "activator", "--services", str(services), "--ports", f"{PORTS}",
            "--admin-port", f"{ADMIN}",
        ]  # fmt: skip
        pinned = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        try:
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        finally:
            os.sched_setaffinity(0, pinned)
        try:
            wait_until(_is_ready, "the activator", 60)
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


def _processor(keeper: int) -> float:
    """Processor seconds of the process that serves, until now."""
    (child,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_ready() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}/readyz", timeout=2) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def _result(steps: list[Step], load_before: float) -> Result:
    held = [step for step in steps if step.holds]
    best = held[-1] if held else None
    at_goal = next((step for step in steps if step.rate == GOAL_PER_SECOND), steps[-1])
    return Result(
        (
            Figure(
                "gateway.requests_per_second_per_core", round(best.answered if best else 0.0), "1/s", GOAL_PER_SECOND,
                higher_is_better=True,
            ),
            Figure("gateway.added_p99_ms", round(at_goal.added_p99, 2), "ms", GOAL_MS),
            Figure("gateway.added_p50_ms", round(at_goal.added_p50, 2), "ms"),
            Figure("gateway.processor_microseconds", round(at_goal.processor), "us"),
            Figure("gateway.failed", sum(step.failed for step in held), "", 0),
        ),
        (
            *(
                f"{step.rate:g}/s: p99 direct {step.direct:.2f} ms, through the activator {step.through:.2f} ms, added "
                f"{step.added_p99:.2f} (p50 {step.added_p50:.2f}); {step.answered:.0f}/s answered, {step.failed} "
                f"failed, {step.processor:.0f} us of processor time a request"
                for step in steps
            ),
            f"added_ms and processor time are at {at_goal.rate:g}/s; {CONNECTIONS} kept connections, GET, 1 KiB "
            "answers, Poisson times",
            f"one core of {os.cpu_count()} ({platform.processor() or platform.machine()}), Python "
            f"{platform.python_version()}; load before {load_before:.1f}, after {os.getloadavg()[0]:.1f}",
        ),
    )  # fmt: skip
