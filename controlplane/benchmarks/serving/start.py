"""`start`: from `manage.py up` on an empty folder to a page, to a cluster at work, and back to nothing."""

import time
from contextlib import closing

import httpx

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.jobspec.quantities import iso
from controlplane.simulator.worlds.demo import OPENING

PORT = 8765
READY_SECONDS, ALIVE_SECONDS, STOP_SECONDS = 10.0, 30.0, 5.0
GIVE_UP_SECONDS = 120.0
POLL_SECONDS = 0.25
NEWEST = 100  # workloads looked at


def run(options: Options, progress: Progress) -> Result:
    """Start, look, stop."""
    progress(0.0, "starting on an empty folder")
    with processes.weft(PORT, "--seed", str(options.seeds[0])) as weft:
        ready = weft.ready()
        progress(0.3, f"first page after {ready:.1f} s; waiting for jobs that run, wait and have ended")
        with closing(weft.sign_in()) as client:
            alive = _alive(weft, client)
            progress(0.8, f"alive after {alive:.1f} s; stopping with a page open")
            with client.stream("GET", "/stream") as _:  # the page's own stream, which never ends by itself
                stop = weft.stop()
        code = weft.process.returncode
    if code != 0:
        raise BenchmarkError(f"Ctrl-C ended Weft with exit code {code}; it should be 0.")
    return Result(
        (
            Figure("start.ready_seconds", round(ready, 2), "s", READY_SECONDS),
            Figure("start.alive_seconds", round(alive, 2), "s", ALIVE_SECONDS),
            Figure("start.stop_seconds", round(stop, 2), "s", STOP_SECONDS),
        )
    )


def _alive(weft: processes.Weft, client: httpx.Client) -> float:
    """Seconds from the start until jobs run, wait and have ended since the clock started, as the API tells."""
    while time.monotonic() - weft.began < GIVE_UP_SECONDS:
        if all(_any(client, phase) for phase in ("Running", "Queued")) and _has_ended_since(client):
            return time.monotonic() - weft.began
        time.sleep(POLL_SECONDS)
    raise BenchmarkError(f"After {GIVE_UP_SECONDS:g} s there were not yet jobs that run, wait and have ended.")


def _has_ended_since(client: httpx.Client) -> bool:
    """Whether one of the newest jobs has succeeded since the demo's clock started, so not in its past."""
    answer = client.get("/api/v1/workloads", params={"phase": "Succeeded", "ordering": "-seq", "page_size": NEWEST})
    answer.raise_for_status()
    return any(one["ended_at"] > iso(OPENING) for one in answer.json()["results"])


def _any(client: httpx.Client, phase: str) -> bool:
    answer = client.get("/api/v1/workloads", params={"phase": phase, "page_size": 1})
    answer.raise_for_status()
    return bool(answer.json()["results"])
