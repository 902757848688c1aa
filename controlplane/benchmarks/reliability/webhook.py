"""`webhook`: what the admission server adds to a create in a team's namespace, and that elsewhere nothing waits for it.

`manage.py admission` with Postgres, as a user starts it, behind a real API server with all fences. Jobs with the label,
and pods of one such Job, are created at 50 a second as dry runs (each is asked about, nothing is stored), each
at its time whether or not earlier ones were answered. What is timed is the whole create, as kubectl waits for it. The
same creates go to a namespace without `weft.dev/team`, with the server there and with it killed.
"""

import base64
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from controlplane.adopted.kinds import QUEUE
from controlplane.benchmarks.harness import processes, rights
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result, quantile
from controlplane.manifests import webhook
from controlplane.manifests.site import ADMISSION, Json, Site
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.postgres import postgres
from controlplane.testbed.processes import free_port, listens, wait_until

CREATES, PER_SECOND = 1500, 50.0
AT_ONCE = 32
TEAM, USER = "research", "ada"
ELSEWHERE = "elsewhere"
P99_GOAL, DELAY_GOAL = 20.0, 1.0  # ms
WARM_UP = 50


@dataclass(frozen=True, slots=True)
class Timed:
    """How long creates took, in milliseconds, and how many were refused."""

    took: tuple[float, ...]
    refused: int
    first: str  # refusal

    def quantile(self, part: float) -> float:
        """Of the times."""
        return quantile(self.took, part)


def run(options: Options, progress: Progress) -> Result:
    """Start all, create. Raises BenchmarkError."""
    count = CREATES if options.jobs is None else max(1, min(CREATES, options.jobs))
    with tempfile.TemporaryDirectory(prefix="weft-webhook-") as name:
        progress(0.0, "starting a cluster, Postgres and the admission server")
        with _bench(Path(name)) as bench:
            bench.create(bench.inside, WARM_UP)
            progress(0.2, f"{count} creates in a team's namespace at {PER_SECOND:g}/s")
            inside = bench.create(bench.inside, count)
            progress(0.5, "the same elsewhere")
            up = bench.create(bench.elsewhere, count)
            bench.server.kill()
            bench.server.wait()
            progress(0.75, "the same without the admission server")
            down = bench.create(bench.elsewhere, count)
            closed = bench.create(bench.inside, 5)
    for timed in (inside, up, down):
        if timed.refused:
            raise BenchmarkError(f"{timed.refused} of {len(timed.took)} creates were refused: {timed.first}")
    if closed.refused != len(closed.took):
        raise BenchmarkError("Without the admission server a create in a team's namespace was let in.")
    delay = down.quantile(0.5) - up.quantile(0.5)
    return Result(
        (
            Figure("webhook.p99_ms", round(inside.quantile(0.99), 1), "ms", P99_GOAL),
            Figure("webhook.p50_ms", round(inside.quantile(0.5), 1), "ms"),
            Figure("webhook.elsewhere_delay_p50_ms", round(delay, 2), "ms", DELAY_GOAL),
        ),
        (
            f"{count} creates at {PER_SECOND:g}/s, half Jobs and half pods, as dry runs; the whole create is timed",
            f"elsewhere: with the server there p50 {up.quantile(0.5):.1f} ms, p99 {up.quantile(0.99):.1f} ms; "
            f"without it p50 {down.quantile(0.5):.1f} ms, p99 {down.quantile(0.99):.1f} ms",
            "on this machine: admission server, Postgres; etcd, kube-apiserver, kube-controller-manager, KWOK; the "
            "benchmark",
        ),
    )


class _Bench:
    """A cluster with the fences, the server, and a Job whose pods are created."""

    def __init__(self, cluster: TestCluster, server: "subprocess.Popen[bytes]", site: Site) -> None:
        self.server = server
        self._namespace = f"{site.prefix}{TEAM}"
        verify = ssl.create_default_context(cafile=str(cluster.ca))
        headers = {"Authorization": f"Bearer {cluster.layout.token}"}
        limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
        self._http = httpx.Client(
            base_url=cluster.url, verify=verify, headers=headers, limits=limits, timeout=30, trust_env=False
        )
        wait_until(lambda: self._answer("POST", self._jobs(self._namespace), _job("first")).is_success, "the webhook")
        self._owner = self._answer("GET", f"{self._jobs(self._namespace)}/first").json()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def inside(self, number: int) -> tuple[str, Json]:
        """A Job with the label, or a pod of one that is queued."""
        if number % 2:
            return self._jobs(self._namespace), _job(f"job-{number}")
        meta: Any = self._owner["metadata"]
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True,
        }  # fmt: skip
        return f"/api/v1/namespaces/{self._namespace}/pods", _pod(f"pod-{number}", ownerReferences=[owner])

    def elsewhere(self, number: int) -> tuple[str, Json]:
        """The same without a label."""
        if number % 2:
            return self._jobs(ELSEWHERE), _job(f"job-{number}", labels={})
        return f"/api/v1/namespaces/{ELSEWHERE}/pods", _pod(f"pod-{number}")

    def create(self, what: Callable[[int], tuple[str, Json]], count: int) -> Timed:
        """Create so many as dry runs, each at its time; a late start counts as waiting."""
        began = time.monotonic() + 0.1

        def one(number: int) -> tuple[float, str]:
            due = began + number / PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            path, body = what(number)
            answer = self._answer("POST", f"{path}?dryRun=All", body)
            return 1000 * (time.monotonic() - due), "" if answer.is_success else answer.text[:300]

        with ThreadPoolExecutor(AT_ONCE) as pool:
            done = list(pool.map(one, range(count)))
        refusals = [refusal for _, refusal in done if refusal]
        return Timed(tuple(took for took, _ in done), len(refusals), refusals[0] if refusals else "")

    def _jobs(self, namespace: str) -> str:
        return f"/apis/batch/v1/namespaces/{namespace}/jobs"

    def _answer(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        return self._http.request(method, path, json=body)


@contextmanager
def _bench(folder: Path) -> Iterator[_Bench]:
    (folder / "cluster").mkdir()
    with postgres() as database, test_cluster(folder / "cluster", nodes=1) as cluster:
        site, port = replace(Site(), has_admission=True), free_port()
        rights.scheduler(cluster, [TEAM], site=site)
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": ELSEWHERE}})
        account = f"/api/v1/namespaces/{ELSEWHERE}/serviceaccounts/default"
        cluster.wait_for(lambda: cluster.exists(account), "the service account")
        env = processes.production(
            folder, DATABASE_URL=database, WEFT_ADMISSION="true", WEFT_KUBERNETES_USERS=f"admin={USER}",
            KUBECONFIG=str(cluster.kubeconfig(f"{site.namespace}/{ADMISSION}")),
        )  # fmt: skip
        processes.run(env, "benchmark_process", "webhook-prepare")
        files = (
            "--certificate",
            str(cluster.layout.folder / "api.crt"),
            "--key",
            str(cluster.layout.folder / "api.key"),
        )
        with (folder / "log").open("wb") as log:
            command = processes.manage("admission", "--host", "127.0.0.1", "--port", str(port), *files)
            server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            wait_until(lambda: listens(port) or server.poll() is not None, "the admission server", 60.0)
            if server.poll() is not None:
                raise BenchmarkError((folder / "log").read_text()[-1000:])
            authority = base64.b64encode(cluster.ca.read_bytes()).decode()
            found = replace(site, admission_url=f"https://127.0.0.1:{port}", admission_ca=authority)
            cluster.apply(webhook.webhook(found))
            bench = _Bench(cluster, server, found)
            try:
                yield bench
            finally:
                bench.close()
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def _job(name: str, labels: dict[str, str] | None = None) -> Json:
    marked = {QUEUE: TEAM} if labels is None else labels
    spec: Any = _pod("")["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": marked},
        "spec": {"template": {"spec": spec}},
    }


def _pod(name: str, **metadata: object) -> Json:
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {"name": "train", "image": "example/train:1", "resources": {"limits": limits}}
    spec = {"containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
