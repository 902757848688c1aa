"""Storms at the API server, for `recovery`: others write to our pods all the time (F7), and answers lie (F8).

A process of its own changes an annotation of one pod after another. A proxy before the API server refuses a part of our
writes with 409 or 429 and `Retry-After`, and has others done and answers 500, 503 or 504 all the same.
"""

import json
import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from controlplane.benchmarks.harness import processes, rights
from controlplane.benchmarks.harness.site import Site
from controlplane.benchmarks.reliability.faults import Fault, Faults, Matches, Proxy, proxy
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.api import MERGE, Api, all_of
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import ClusterUnreachable
from controlplane.testbed.processes import running, wait_until

KUBECONFIG = "WEFT_KUBECONFIG"
WRITES = ("POST", "PATCH", "DELETE")
PART = 0.05  # of our writes, for each of the answers
REFUSED = ((409, None), (429, 1))  # status and Retry-After, seconds: not done
DONE = (500, 503, 504)  # done, and answered so
SEED = 20261125
WATCHES = 2  # of pods and of nodes, by the worker that observes
RESTART_SECONDS = 120.0
AT_ONCE = 8  # writes of the mutator
ENOUGH = 10**9  # faults that a storm never uses up


@contextmanager
def storm(found: Site, folder: Path) -> Iterator[Faults]:
    """Both storms for the time of a `with` block; before and after it the workers are killed and started again."""
    with proxy(found.cluster, found.cluster.token(rights.ACCOUNT)) as between, _mutator(found, folder):
        path = folder / "kubeconfig-storm"
        path.write_text(json.dumps(_through(between)))
        before = _restart(found, {KUBECONFIG: str(path)})
        wait_until(lambda: between.faults.watches >= WATCHES, "a worker behind the proxy", RESTART_SECONDS)
        between.faults.requests = list(_faults(random.Random(SEED)))  # noqa: S311 - chance, not secrecy
        try:
            yield between.faults
        finally:
            between.faults.requests = []
            _restart(found, before)


def _faults(rng: random.Random) -> Iterator[Fault]:
    for status, wait in REFUSED:
        yield Fault(_some_writes(rng), ENOUGH, status, is_done=False, retry_after=wait)
    for status in DONE:
        yield Fault(_some_writes(rng), ENOUGH, status)


def _some_writes(rng: random.Random) -> Matches:
    return lambda method, path: method in WRITES and rng.random() < PART


def _through(between: Proxy) -> Mapping[str, Any]:
    """A kubeconfig; the proxy has the token."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "storm", "cluster": {"server": between.access().url}}],
        "users": [{"name": "storm", "user": {}}],
        "contexts": [{"name": "storm", "context": {"cluster": "storm", "user": "storm"}}],
        "current-context": "storm",
    }


def _restart(found: Site, variables: Mapping[str, str]) -> dict[str, str]:
    """Kill the workers and start them with these variables; what those were before."""
    before: dict[str, str] = {}
    for name in found.made.replicas("worker"):
        part = found.made.parts[name]
        before |= {key: part.env[key] for key in variables}
        found.made.kill(name)
        found.made.change(name, variables)
        found.made.start(name)
    return before


@contextmanager
def _mutator(found: Site, folder: Path) -> Iterator[None]:
    env = {**os.environ, KUBECONFIG: str(found.cluster.kubeconfig())}
    with running(processes.manage("benchmark_process", "mutate-pods"), log=folder / "mutator.log", env=env):
        yield


def mutate(options: Mapping[str, Any]) -> NoReturn:
    """Write to all our pods, over and over, until killed."""
    api, number = Api(find()), 0
    while True:
        number += 1
        try:
            api.call(_touch_all(api, number))
        except ClusterUnreachable:
            threading.Event().wait(1.0)


async def _touch_all(api: Api, number: int) -> None:
    found = await api.request("GET", "/api/v1/pods", query={"labelSelector": names.WORKLOAD})
    change = {"metadata": {"annotations": {"example.com/touched": str(number)}}}
    paths = [
        f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}" for pod in found["items"]
    ]
    # One that has gone meanwhile is refused, which does not matter.
    await all_of((api.request("PATCH", path, change, kind=MERGE) for path in paths), AT_ONCE)
