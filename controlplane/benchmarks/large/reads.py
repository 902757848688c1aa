"""`api-large`: what reads cost a web process with 25,000 running workloads and 5,000 that wait on 50,000 GPUs.

The database is written at once (scheduling/largeworld.py), on Postgres; then rounds of the scheduler follow each other,
and the last one leaves what reads ask. One web process as in production answers; its
processor time is counted from outside, over several requests of each kind after one that is not counted. Postgres' own
time is none of it. Nothing changes between the requests, so no answer of one can be another's: none is cached.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.core.management import call_command

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.databases import on_postgres
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.large.load import pods
from controlplane.benchmarks.scheduling import largeworld
from controlplane.benchmarks.scheduling.roundload import Bench, Load, Machines
from controlplane.models import ClusterState, Node, Placement, User, Workload
from controlplane.queries.scheduling.snapshot import frame
from controlplane.runtime import tuning
from controlplane.services.accounts import tokens
from controlplane.testbed.processes import free_port, running, wait_until
from scheduler.model.workload import Phase

WORKLOADS, NODES = 32_000, 6250
RUNNING, WAITING = 0.7815, 0.16  # of all: what runs holds all GPUs
SIZES = (1, 1, 2, 4)  # GPUs, by turns: a node's
ROUNDS = 3  # at most: until nothing changes any more, which takes long where teams' work makes room for their own
REQUESTS = 5  # of each kind
READ_GOAL, MAP_GOAL = 0.3, 1.0
READY_SECONDS = 180.0
STEP_SECONDS = 60.0  # of the cluster's clock between two rounds
PASSWORD = "a benchmark's own"  # noqa: S105
COUNTED = ("queue", "explanation", "eta", "nodes", "page")  # of which the slowest has a goal


@dataclass(frozen=True, slots=True)
class Read:
    """One kind of request: processor seconds of the web process for each, seconds until the answer, MiB of it."""

    cpu_seconds: float
    seconds: float
    mib: float


def run(options: Options, progress: Progress) -> Result:
    """Fill a database, decide, serve it, ask. Raises BenchmarkError."""
    count, nodes = options.jobs or WORKLOADS, (options.gpus or NODES * 8) // 8
    with on_postgres() as env, tempfile.TemporaryDirectory(prefix="weft-reads-") as home:
        progress(0.0, "filling the database")
        env = {**env, "ADMIN_PASSWORD": PASSWORD, "ALLOWED_HOSTS": "127.0.0.1"}
        made = processes.run(env, "benchmark_process", "reads-prepare", "--count", str(count), "--nodes", str(nodes))
        progress(0.6, f"asking with {made['running']} running, {made['waiting']} waiting")
        with _served(Path(home), env) as (url, pid):
            found = measured(url, pid, made)
    return result(found, made, is_whole=options.jobs is None and options.gpus is None)


def prepare(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fill an empty database and decide until nothing more is placed; what is there, and a token."""
    tuning.collect_less_often()
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    size = largeworld.Size(options["nodes"], RUNNING, WAITING, SIZES, is_packed=True)
    largeworld.prepare({**options, "password": settings.ADMIN_PASSWORD}, size)
    Placement.objects.filter(workload__phase=Phase.RUNNING.value).update(pod_phase="Running")
    ClusterState.objects.update(is_simulated=False, paused=False)
    machines = Machines(frame().nodes)
    machines.ahead = largeworld.NOW - time.time()
    machines.resume(pods())
    bench = Bench(machines, Load(options["seed"]))
    rounds = 0
    while rounds < ROUNDS:
        machines.ahead += STEP_SECONDS
        rounds += 1
        if not bench.round().changes:
            break
    waits = Workload.objects.filter(phase=Phase.QUEUED.value).order_by("-seq")
    admin = User.objects.get(username="admin")
    return {
        "running": Workload.objects.filter(phase=Phase.RUNNING.value).count(),
        "waiting": waits.count(),
        "nodes": Node.objects.count(),
        "rounds": rounds,
        "uid": str(waits.values_list("pk", flat=True)[waits.count() // 2]),
        "token": tokens.create(user=admin, name="benchmark").secret,
    }


@contextmanager
def _served(home: Path, env: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """One web process: its address and pid."""
    port = free_port()
    server = ("uvicorn", "controlplane.asgi:application", "--lifespan", "off", "--log-level", "warning")
    command = [processes.manage()[0], "-m", *server, "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with running(command, log=home / "web.log", env=env) as process:
        wait_until(lambda: _answers(url), "the web process", READY_SECONDS)
        yield url, process.pid


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def measured(url: str, pid: int, made: Mapping[str, Any]) -> dict[str, Read]:
    """Each kind of request, asked one after another. Raises BenchmarkError."""
    one = f"/api/v1/workloads/{made['uid']}"
    kept: dict[str, Any] = {"base_url": url, "timeout": 120, "trust_env": False}
    bearer = {"Authorization": f"Bearer {made['token']}"}
    with httpx.Client(**kept, headers=bearer) as api, httpx.Client(**kept, follow_redirects=True) as pages:
        pages.get("/login/")
        form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": pages.cookies["csrftoken"]}
        pages.post("/login/", data=form, headers={"Referer": f"{url}/login/"})
        return {
            "queue": _read(api, pid, "/api/v1/queue"),
            "explanation": _read(api, pid, f"{one}/explanation"),
            "eta": _read(api, pid, f"{one}/eta"),
            "nodes": _read(api, pid, "/api/v1/nodes"),
            "page": _read(pages, pid, f"/workloads/{made['uid']}/"),
            "queue page": _read(pages, pid, "/queue/"),
            "map": _read(pages, pid, "/map/"),
            "a rack": _read(pages, pid, "/map/rack/?zone=zone-0&rack=rack-00", part=True),
        }


def _read(client: httpx.Client, pid: int, path: str, *, part: bool = False) -> Read:
    """part: as a page asks for it when it is looked at."""
    headers = {"HX-Request": "true"} if part else {}
    answer = _got(client, path, headers)
    before, began = processes.core_seconds(pid), time.monotonic()
    for _ in range(REQUESTS):
        _got(client, path, headers)
    seconds, cpu = time.monotonic() - began, processes.core_seconds(pid) - before
    return Read(cpu / REQUESTS, seconds / REQUESTS, len(answer.content) / 2**20)


def _got(client: httpx.Client, path: str, headers: Mapping[str, str]) -> httpx.Response:
    answer = client.get(path, headers=headers)
    if answer.status_code != 200 or answer.url.path == "/login/":
        raise BenchmarkError(f"GET {path} answered {answer.status_code} at {answer.url.path}: {answer.text[:200]}")
    return answer


def result(found: Mapping[str, Read], made: Mapping[str, Any], *, is_whole: bool) -> Result:
    """The figures; they have goals at the size that the benchmark is named for."""
    slowest = max(COUNTED, key=lambda kind: found[kind].cpu_seconds)
    return Result(
        (
            Figure(
                "api.large_read_cpu_seconds_max",
                round(found[slowest].cpu_seconds, 3),
                "s",
                READ_GOAL if is_whole else None,
            ),
            Figure("api.large_map_mib", round(found["map"].mib, 2), "MiB", MAP_GOAL if is_whole else None),
        ),
        (
            f"{made['running']} run, {made['waiting']} wait on {made['nodes'] * 8} GPUs; after {made['rounds']} rounds",
            "processor time of the web process, ms: "
            + ", ".join(f"{kind} {one.cpu_seconds * 1000:.0f}" for kind, one in found.items()),
            "until the answer, ms: " + ", ".join(f"{kind} {one.seconds * 1000:.0f}" for kind, one in found.items()),
            "of each answer, MiB: " + ", ".join(f"{kind} {one.mib:.2f}" for kind, one in found.items()),
            f"the slowest is {slowest}; means of {REQUESTS} requests; Postgres' own processor time is not in it",
        ),
    )
