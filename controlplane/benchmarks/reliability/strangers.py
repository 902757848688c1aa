"""`strangers`: what people notice of others who have no password, on the compose file's web process with Postgres.

First every address is asked without a password, 50 times each: its processor time is that of the web process, all
threads, as the kernel counts it. Sign-in is left out: its price is one password hash, which has limits of its own. Then
somebody who is signed in opens the queue, by page and by REST, again and again, by turns with and without 200 wrong
sign-ins and invented tokens a second, from one address and from 50. The ratio is that of the 99th percentiles of the
same run.
"""

import http.client
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.serving import floods
from controlplane.security import authorization
from controlplane.testbed import compose
from controlplane.testbed.compose import Installation
from controlplane.testbed.processes import wait_until

VISITS, WARM = 50, 3
ROUTE_MS, RATIO = 20.0, 1.5
PER_SECOND = 200  # of strangers
ASKED_PER_SECOND = 10  # of each address of the queue
BLOCKS, BLOCK_SECONDS = 8, 15.0  # of each condition, by turns: whatever else the machine does meets all of them
SETTLE_SECONDS = 1.0  # of a block that are not counted
QUEUES = ("/queue/", "/api/v1/queue")
CONDITIONS = {"quiet": 0, "one address": 1, "50 addresses": 50}
VALUES = {"uuid": "00000000-0000-4000-8000-000000000000", "int": "1", "slug": "x", "str": "x", "path": "x"}
SIGN_IN = {("POST", "login/"), ("POST", "api/v1/login")}
OPEN = ("healthz", "readyz", "metrics", "api/docs?script", "no-such-address", "api/v1/no-such-address")


@dataclass
class Times:
    """Milliseconds by condition and address, and what came back to the strangers."""

    ms: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    answered: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    def p99(self, condition: str, path: str) -> float:
        """Of one address under one condition."""
        every = sorted(self.ms[condition, path])
        return every[min(len(every) - 1, int(len(every) * 0.99))]


def run(options: Options, progress: Progress) -> Result:
    """Start an installation, fill it, ask. Raises BenchmarkError."""
    blocks = BLOCKS if options.jobs is None else max(1, options.jobs)
    with tempfile.TemporaryDirectory(prefix="weft-strangers-") as name:
        folder = Path(name) / "site"
        folder.mkdir()
        with compose.prepared(folder) as made:
            progress(0.0, "starting the installation")
            compose.up(made)
            client = _signed_in(made)
            wait_until(lambda: len(client.get(QUEUES[1]).content) > 2_000, "a queue", 120)
            progress(0.1, "asking every address without a password")
            costs, statuses = _routes(made)
            # After /readyz was asked, which answers 503 without them.
            for part in (*made.replicas("worker"), *made.replicas("beat")):
                made.stop(part)
            times = _queue(made, client, blocks, progress)
    return _result(costs, statuses, times)


# --- what an address costs ------------------------------------------------------------------------


def _routes(made: Installation) -> tuple[dict[str, float], Counter[int]]:
    """Milliseconds of the web process for each address and method, the median of so many; how often which status came.

    Raises BenchmarkError where a limit or a fault of the server answered: that is not what the address costs.
    """
    where = urlsplit(made.url)
    costs: dict[str, float] = {}
    statuses: Counter[int] = Counter()
    for number, (method, path) in enumerate(_asked(made)):
        # An address of its own for each: what is measured is the answer, not the limit.
        source = (f"127.2.{number // 250}.{number % 250 + 1}", 0)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60, source_address=source)
        spent = []
        for _ in range(WARM + VISITS):
            before = _spent(made)
            connection.request(method, f"/{path}", b"{}" if method == "POST" else None, _headers(method))
            answer = connection.getresponse()
            answer.read()
            if answer.status == 429 or answer.status >= 500:
                raise BenchmarkError(f"{method} /{path} answered {answer.status}.")
            statuses[answer.status] += 1
            spent.append(_spent(made) - before)
        connection.close()
        costs[f"{method} /{path}"] = statistics.median(spent[WARM:]) * 1000
    return costs, statuses


def _asked(made: Installation) -> Iterator[tuple[str, str]]:
    """Every address with the methods that anybody may try, and what stands on the first page anybody sees."""
    rules = [rule for rule in authorization.rules() if rule.who == "anyone"]
    for route in authorization.routes():
        path = re.sub(r"<(\w+):\w+>", lambda found: VALUES[found[1]], route.address).lstrip("/")
        yield "GET", path
        is_open = any(rule.is_about(route.address) and "POST" in rule.methods for rule in rules)
        if is_open and ("POST", route.address) not in SIGN_IN:
            yield "POST", path
    yield from (("GET", path) for path in OPEN)
    page = httpx.get(f"{made.url}/login/", timeout=30, trust_env=False).text
    yield from (("GET", path) for path in sorted(set(re.findall(r'(?:src|href)="/(static/[^"]+)"', page))))


def _headers(method: str) -> dict[str, str]:
    return {"Content-Type": "application/json"} if method == "POST" else {}


def _spent(made: Installation) -> float:
    """Seconds of processor time that the web process and its workers have used (proc_pid_schedstat)."""
    nanoseconds = 0
    for process in _web(made):
        for task in Path(f"/proc/{process}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _web(made: Installation) -> list[int]:
    first = made.process("web").pid
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    return [first, *map(int, children)]


# --- what somebody who is signed in waits for -----------------------------------------------------


def _queue(made: Installation, client: httpx.Client, blocks: int, progress: Progress) -> Times:
    times = Times()
    for number, (block, condition) in enumerate(itertools.product(range(blocks), CONDITIONS)):
        progress(0.3 + 0.7 * number / (blocks * len(CONDITIONS)), f"the queue, {condition}")
        addresses = CONDITIONS[condition]
        flooding = _flood(made, addresses) if addresses else None
        _visit(client, condition, times)
        if flooding is not None:
            said, _ = flooding.communicate(timeout=90)
            for status, count in json.loads(said).items():
                times.answered[status] += count
        if block == 0 and flooding is not None and not times.answered:
            raise BenchmarkError("The strangers got no answer at all.")
    return times


def _flood(made: Installation, addresses: int) -> "subprocess.Popen[str]":
    where = urlsplit(made.url)
    arguments = [str(where.hostname), str(where.port), str(addresses), str(PER_SECOND), str(BLOCK_SECONDS)]
    command = [sys.executable, "-m", floods.__name__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _visit(client: httpx.Client, condition: str, times: Times) -> None:
    """Ask for the queue at its times; each latency counts from the time it was due."""
    began = time.perf_counter()
    for number in range(int(BLOCK_SECONDS * ASKED_PER_SECOND)):
        due = began + number / ASKED_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        path = QUEUES[number % len(QUEUES)]
        answer = client.get(path)
        if number / ASKED_PER_SECOND >= SETTLE_SECONDS:
            times.ms.setdefault((condition, path), []).append((time.perf_counter() - due) * 1000)
            times.failed += answer.status_code != 200


def _signed_in(made: Installation) -> httpx.Client:
    client = httpx.Client(base_url=made.url, timeout=60, trust_env=False)
    client.get("/login/")
    form = {"username": "admin", "password": made.secret("admin_password")}
    form["csrfmiddlewaretoken"] = client.cookies.get("csrftoken") or ""
    client.post("/login/", data=form, headers={"Referer": made.url})
    if "sessionid" not in client.cookies:
        raise BenchmarkError("admin could not sign in.")
    return client


def _result(costs: dict[str, float], statuses: Counter[int], times: Times) -> Result:
    dear = sorted(costs.items(), key=lambda one: -one[1])
    ratios = {
        (condition, path): times.p99(condition, path) / times.p99("quiet", path)
        for condition in CONDITIONS
        for path in QUEUES
        if condition != "quiet"
    }
    p99s = [f"{path} {condition} {times.p99(condition, path):.1f}" for path in QUEUES for condition in CONDITIONS]
    return Result(
        (
            Figure("strangers.route_cpu_ms_max", round(dear[0][1], 2), "ms", ROUTE_MS),
            Figure("strangers.p99_ratio_under_flood", round(max(ratios.values()), 2), "x", RATIO),
            Figure("strangers.signed_in_refused", times.failed, "", 0),
            Figure("strangers.routes", len(costs), ""),
        ),
        (
            "dearest: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in dear[:4]),
            f"answers of the addresses by status: {dict(sorted(statuses.items()))}",
            f"p99 in ms: {', '.join(p99s)}; {len(times.ms['quiet', QUEUES[0]])} visits each",
            f"answers to strangers by status: {dict(sorted(times.answered.items()))}",
            f"two web processes, client, strangers and Postgres on this machine; load {os.getloadavg()[0]:.1f}",
        ),
    )
