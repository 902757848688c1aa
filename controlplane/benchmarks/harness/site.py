"""A production installation at work on a real API server: what `recovery` and `fencing` do harm to.

The compose file's processes, with the rights that production gives them, on a KWOK cluster; work that runs, work that
waits (siteload.py), and somebody who submits.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from controlplane.benchmarks.harness import processes, rights
from controlplane.benchmarks.harness.siteload import TEAMS, Job, Load, coming
from controlplane.testbed import compose
from controlplane.testbed.compose import Installation
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.processes import wait_until

LOAD_SECONDS = 480.0  # a minute where nothing else runs


@dataclass
class Site:
    """The installation, its machines, and what was accepted."""

    made: Installation
    cluster: TestCluster
    http: httpx.Client
    accepted: dict[str, float] = field(default_factory=dict)  # uid -> time of the answer
    submitted: int = 0

    @contextmanager
    def database(self) -> Iterator["psycopg.Connection[Any]"]:
        """A connection of our own."""
        with psycopg.connect(self.made.database, autocommit=True, connect_timeout=3) as connection:
            yield connection

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows; none while Postgres does not answer."""
        try:
            return self.rows(statement, *values)
        except psycopg.OperationalError:
            return []

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows. Raises psycopg.Error."""
        with self.database() as database:
            return list(database.execute(statement, values).fetchall())

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of ours on a node, by name."""
        found = self.cluster.request(
            "GET", "/api/v1/pods?labelSelector=weft.dev/workload&fieldSelector=spec.nodeName!="
        )
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    def holder(self, loop: str) -> str:
        """The part that holds a loop's lease."""
        for (holder,) in self.ask("SELECT holder FROM controlplane_lease WHERE name = %s", loop):
            for name in self.made.replicas("worker"):
                if name in self.made.running and holder.endswith(f":{self.made.process(name).pid}"):
                    return name
        return self.made.replicas("worker")[0]


@contextmanager
def site(folder: Path, *, running: int, waiting: int, database_options: Mapping[str, str] = {}) -> Iterator[Site]:
    """A site with so many workloads running and waiting. Raises MissingError or BenchmarkError.

    database_options: those of Postgres' settings that are not as they come.
    """
    for part in ("cluster", "site"):
        (folder / part).mkdir()
    with (
        test_cluster(folder / "cluster", nodes=Load(running, waiting).nodes) as cluster,
        compose.prepared(
            folder / "site",
            {"CLUSTER": "kubernetes"},
            {"WEFT_KUBECONFIG": str(rights.scheduler(cluster, TEAMS))},
            database_options,
        ) as made,
    ):
        compose.up(made, prepare=lambda: _load(made, "site-prepare", running, waiting))
        with httpx.Client(base_url=made.url, timeout=10, trust_env=False) as http:
            found = Site(made, cluster, http)
            _sign_in(found)
            _await(found, running, 0)
            _load(made, "site-queue", running, waiting)
            _await(found, running, waiting)
            yield found


def _load(made: Installation, part: str, running: int, waiting: int) -> None:
    env = dict(made.parts["install"].env)
    processes.run(env, "benchmark_process", part, "--running", str(running), "--waiting", str(waiting))


def _sign_in(found: Site) -> None:
    password = found.made.secret("admin_password")
    answer = found.http.post("/api/v1/login", json={"username": "admin", "password": password, "name": "benchmark"})
    found.http.headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['token']}"


def _await(found: Site, running: int, waiting: int) -> None:
    phases = "SELECT phase, count(*) FROM controlplane_workload GROUP BY phase"

    def is_loaded() -> bool:
        counts = dict(found.ask(phases))
        return bool(counts.get("Running", 0) >= running and counts.get("Queued", 0) >= waiting)

    wait_until(is_loaded, f"{running} running and {waiting} waiting", LOAD_SECONDS)


class Submitter:
    """Submits so many jobs a second over HTTP, those of siteload.py, each under its own key until it is accepted."""

    def __init__(self, to: Site, per_second: float) -> None:
        self._site = to
        self._period = 1.0 / per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)
        self.retried = 0

    def __enter__(self) -> "Submitter":
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End once the last one is accepted or given up."""
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self._site.submitted += 1
            self._submit(coming(self._site.submitted))
            due = max(due + self._period, time.monotonic() - 1.0)  # what was missed is not caught up in a burst
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _submit(self, job: Job) -> None:
        key = {"Idempotency-Key": str(job["name"])}
        while not self._stop.is_set():
            try:
                answer = self._site.http.post("/api/v1/workloads", json=job, headers=key)
                if answer.status_code == 201:
                    self._site.accepted[answer.json()["uid"]] = time.time()
                    return
            except (httpx.HTTPError, json.JSONDecodeError):
                pass
            self.retried += 1
            self._stop.wait(0.25)


def machine_note(found: Site) -> str:
    """What else ran."""
    parts = ", ".join(name for name in found.made.parts if name != "install")
    return f"on this machine: {parts}; etcd, kube-apiserver, kube-controller-manager, KWOK; {_version(found.cluster)}"


def _version(cluster: TestCluster) -> str:
    return f"Kubernetes {cluster.request('GET', '/version')['gitVersion']}"
