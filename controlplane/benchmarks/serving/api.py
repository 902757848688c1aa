"""`api`: latency of the REST API, open loop: on Postgres in the production shape, and embedded beside the demo.

Requests are sent at their times whether or not earlier ones were answered, and each latency counts from the time it
was due: a slow answer is not hidden by waiting for it. The mix is 70 % one workload, 20 % a list, 10 % a submission.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import httpx

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.testbed import compose
from controlplane.testbed.processes import wait_until

SECONDS, WARM_SECONDS = 60.0, 10.0
BUSY_PER_SECOND, IDLE_PER_SECOND = 100, 200
BUSY_GOAL_MS, IDLE_GOAL_MS, EMBEDDED_GOAL_MS = 150.0, 100.0, 250.0
EMBEDDED_PORT = 8768
# 70 % get, 20 % list, 10 % create, spread evenly.
ORDER = ("get", "get", "list", "get", "get", "create", "get", "list", "get", "get")
CONNECTIONS = 64


@dataclass
class Load:
    """What came back: milliseconds by kind of request, and answers that were not what they should be."""

    times: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def p99(self) -> float:
        """Of all requests together."""
        every = sorted(ms for times in self.times.values() for ms in times)
        return every[min(len(every) - 1, int(len(every) * 0.99))] if every else 0.0


def run(options: Options, progress: Progress) -> Result:
    """The demo at work and requests; the loops stopped and more requests; the embedded demo. Raises BenchmarkError."""
    seconds = SECONDS if options.jobs is None else max(2.0, options.jobs / BUSY_PER_SECOND)
    with tempfile.TemporaryDirectory(prefix="weft-api-") as name, compose.prepared(_folder(name)) as made:
        progress(0.0, "starting the installation")
        compose.up(made)
        token = _token(made.url, made.secret("admin_password"))
        wait_until(lambda: len(_some(made.url, token)) >= 50, "the demo's work", 120)
        progress(0.3, f"{BUSY_PER_SECOND} requests/s while the loops run the demo")
        asyncio.run(_load(made.url, token, _some(made.url, token), BUSY_PER_SECOND, WARM_SECONDS, "warm"))
        busy = asyncio.run(_load(made.url, token, _some(made.url, token), BUSY_PER_SECOND, seconds, "busy"))
        for part in (*made.replicas("worker"), *made.replicas("beat")):
            made.stop(part)
        progress(0.7, f"{IDLE_PER_SECOND} requests/s with the loops idle")
        idle = asyncio.run(_load(made.url, token, _some(made.url, token), IDLE_PER_SECOND, seconds, "idle"))
    progress(0.8, f"{BUSY_PER_SECOND} requests/s while the embedded demo runs")
    return _result(busy, idle, _embedded(seconds), seconds)


def _folder(name: str) -> Path:
    folder = Path(name) / "site"
    folder.mkdir()
    return folder


def _embedded(seconds: float) -> Load:
    """The same mix on `make up` in a fresh folder: one process answers and runs the demo, on SQLite."""
    with processes.weft(EMBEDDED_PORT) as weft:
        weft.ready()
        token = _token(weft.address, (weft.home / "password").read_text().strip())
        wait_until(lambda: len(_some(weft.address, token)) >= 50, "the demo's work", 120)
        asyncio.run(_load(weft.address, token, _some(weft.address, token), BUSY_PER_SECOND, WARM_SECONDS, "warm"))
        load = asyncio.run(_load(weft.address, token, _some(weft.address, token), BUSY_PER_SECOND, seconds, "busy"))
        weft.stop()
    return load


def _token(url: str, password: str) -> str:
    form = {"username": "admin", "password": password, "name": "benchmark"}
    answer = httpx.post(f"{url}/api/v1/login", json=form, timeout=30, trust_env=False)
    return str(answer.raise_for_status().json()["token"])


def _some(url: str, token: str) -> list[str]:
    """Workloads to ask for."""
    answer = httpx.get(
        f"{url}/api/v1/workloads",
        params={"page_size": 100},
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
        trust_env=False,
    )
    return [row["uid"] for row in answer.raise_for_status().json()["results"]]


async def _load(url: str, token: str, uids: Sequence[str], per_second: int, seconds: float, name: str) -> Load:
    load = Load()
    # The client shares the machine: this one costs a tenth of httpx's time.
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=30)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(url, headers=headers, connector=connector, timeout=timeout) as client:
        began = time.perf_counter()
        tasks = []
        for number in range(int(per_second * seconds)):
            due = began + number / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(_request(client, load, ORDER[number % 10], uids, f"{name}-{number}", due)))
        await asyncio.gather(*tasks)
    return load


async def _request(
    client: aiohttp.ClientSession, load: Load, kind: str, uids: Sequence[str], name: str, due: float
) -> None:
    path, body, headers = "/api/v1/workloads", None, {}
    if kind == "create":
        job = {"type": "training", "name": name, "team": "product", "image": "example/train:1"}
        body = {**job, "resources": {"gpus": 1}, "expected_duration": "10m"}
        headers = {"Idempotency-Key": name}
    elif kind == "list":
        path += "?page_size=25"
    else:
        path += f"/{uids[hash(name) % len(uids)]}"
    try:
        method = "POST" if kind == "create" else "GET"
        async with client.request(method, path, json=body, headers=headers) as answer:
            await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        load.errors[type(error).__name__] += 1
        return
    load.times.setdefault(kind, []).append((time.perf_counter() - due) * 1000)
    if answer.status != (201 if kind == "create" else 200):
        load.errors[f"{kind} {answer.status}"] += 1


def _result(busy: Load, idle: Load, embedded: Load, seconds: float) -> Result:
    errors = busy.errors + idle.errors + embedded.errors
    return Result(
        (
            Figure("api.p99_ms_postgres", round(busy.p99, 1), "ms", BUSY_GOAL_MS),
            Figure("api.p99_ms_postgres_idle", round(idle.p99, 1), "ms", IDLE_GOAL_MS),
            Figure("api.p99_ms_embedded", round(embedded.p99, 1), "ms", EMBEDDED_GOAL_MS),
            Figure("api.errors", sum(errors.values()), "", 0),
        ),
        (
            f"busy: {BUSY_PER_SECOND}/s for {seconds:g} s while two workers run the demo: {_medians(busy)}",
            f"idle: {IDLE_PER_SECOND}/s for {seconds:g} s with no worker: {_medians(idle)}",
            f"embedded: {BUSY_PER_SECOND}/s for {seconds:g} s while one process runs the demo: {_medians(embedded)}",
            f"errors: {dict(errors) or 'none'}; two web processes; client, Postgres, Redis, Prometheus on this machine",
        ),
    )


def _medians(load: Load) -> str:
    return ", ".join(
        f"{kind} p50 {sorted(times)[len(times) // 2]:.1f} p99 {sorted(times)[int(len(times) * 0.99) - 1]:.1f} ms"
        for kind, times in sorted(load.times.items())
    )
