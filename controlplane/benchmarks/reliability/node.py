"""`node`: what preemption and resizing cost on a real node, with processes that are told to leave and come back.

The compose file's web, both workers, one beat, Postgres and Redis; a real API server; a kubelet and containerd, for
which it needs root. Twenty times a gang of two processes, which sum over the pod network, is preempted by a job of
higher priority. Each time:

- It has resumed if both workers of the next attempt begin at the step that was saved at SIGTERM, and the sum after
  all steps is what it would have been without.
- SIGTERM to free counts from when the last of its processes got the signal until its last pod is gone.
- A resize counts from the start of the request until the kernel holds the process to the new size.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from controlplane.benchmarks.harness import processes, rights
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result, quantile
from controlplane.benchmarks.scheduling.podwatch import PodWatch
from controlplane.cluster.kubernetes import names
from controlplane.simulator.worlds.presets import Pool, Preset
from controlplane.testbed import compose
from controlplane.testbed.compose import Installation
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.processes import wait_until
from controlplane.testbed.realnode import training
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import MODEL, POOL, RealNode, real_node
from gpushare.gpu import WHOLE
from scheduler.model.team import Quota, Team

TIMES, WORKERS, STEPS = 20, 2, 5
TEAM = "research"
GIVE_UP_SECONDS = 120.0
SIZES = ((150, 96), (200, 128))  # milli cores and MiB, before and after
LEFT_OUT = ("beat-2", "prometheus")


def preset() -> Preset:
    """One team that owns the node."""
    quotas = (Quota(TEAM, POOL, WORKERS * WHOLE, borrowing=0, lending=0),)
    return Preset("node", 1.0, 0, (), (Pool(POOL, MODEL),), (Team(TEAM),), quotas, ())


@dataclass(frozen=True, slots=True)
class Turn:
    """One preemption, and one resize: whether all was resumed, and seconds."""

    is_resumed: bool
    to_free: float
    to_resized: float


def run(options: Options, progress: Progress) -> Result:
    """Preempt and resize, one gang after the other. Raises BenchmarkError or MissingError."""
    times = min(TIMES, options.jobs or TIMES)
    with tempfile.TemporaryDirectory(prefix="weft-node-") as name, _bench(Path(name), progress) as bench:
        turns = []
        for number in range(times):
            progress(0.1 + 0.9 * number / times, f"gang {number + 1} of {times}")
            turns.append(bench.turn(number))
    free, resized = [one.to_free for one in turns], [one.to_resized for one in turns]
    return Result(
        (
            Figure("node.resumed_of_20", sum(one.is_resumed for one in turns), "", TIMES, higher_is_better=True),
            Figure("node.sigterm_to_free_p95_seconds", round(quantile(free, 0.95), 3), "s"),
            Figure("node.resize_p95_seconds", round(quantile(resized, 0.95), 3), "s"),
        ),
        (
            f"{times} preemptions of a gang of {WORKERS} processes, and as many resizes of one of them",
            f"SIGTERM to free {min(free):.2f} to {max(free):.2f} s; resize {min(resized):.2f} to {max(resized):.2f} s",
        ),
    )


@contextmanager
def _bench(folder: Path, progress: Progress) -> Iterator["Bench"]:
    for part in ("cluster", "node", "site"):
        (folder / part).mkdir()
    progress(0.0, "starting a cluster with a real node")
    with (
        test_cluster(folder / "cluster", nodes=0) as cluster,
        real_node(cluster, folder / "node", gpus=WORKERS) as node,
        compose.prepared(
            folder / "site", {"CLUSTER": "kubernetes"}, {"WEFT_KUBECONFIG": str(rights.scheduler(cluster, [TEAM]))}
        ) as made,
    ):
        progress(0.05, "starting the installation")
        prepare = dict(made.parts["install"].env)
        compose.up(made, prepare=lambda: _prepared(prepare), without=LEFT_OUT)
        with PodWatch(cluster) as watch, httpx.Client(base_url=made.url, timeout=30, trust_env=False) as http:
            yield Bench(made, cluster, node, watch, http)


def _prepared(env: dict[str, str]) -> None:
    processes.run(env, "benchmark_process", "node-prepare")


class Bench:
    """The installation, the node, and somebody who submits."""

    def __init__(
        self, made: Installation, cluster: TestCluster, node: RealNode, watch: PodWatch, http: httpx.Client
    ) -> None:
        self._cluster, self._node, self._watch, self._http = cluster, node, watch, http
        form = {"username": "admin", "password": made.secret("admin_password"), "name": "benchmark"}
        http.headers["Authorization"] = f"Bearer {self._answer(http.post('/api/v1/login', json=form))['token']}"
        self._source = Path(training.__file__).read_text()

    def turn(self, number: int) -> Turn:
        """One gang from its start to its end. Raises BenchmarkError."""
        data = claim(self._cluster, self._node, names.namespace(TEAM), f"data-{number}")
        gang = self._submit(self._gang(number))
        self._until(lambda: self._now(data) >= STEPS and self._is(gang, "Running"), f"{STEPS} steps")
        to_resized = self._resize(gang)
        high = self._submit(self._high(number))
        self._until(lambda: self._is(high, "Succeeded"), "the job of higher priority to end")
        saved, _ = json.loads((data / "checkpoint.json").read_text())
        told = max(float(file.read_text()) for file in data.glob("told-*"))
        gone = max(self._gone_at(f"{gang}-1-{rank}") for rank in range(WORKERS))
        self._until(lambda: self._now(data) > saved, "a step after the checkpoint")
        (data / "enough").touch()
        self._until(lambda: self._is(gang, "Succeeded"), "the gang to end")
        logs = self._answer(self._http.get(f"/api/v1/workloads/{gang}/logs"))["lines"]
        starts = {line["text"].partition(" starts at step ")[2] for line in logs if " starts at step " in line["text"]}
        step, total = json.loads((data / "checkpoint.json").read_text())
        is_resumed = starts == {str(saved)} and total == training.expected(step, WORKERS)
        return Turn(is_resumed, gone - told, to_resized)

    def _gang(self, number: int) -> dict[str, Any]:
        cpu, memory = SIZES[0]
        return {
            "type": "training",
            "name": f"gang-{number}",
            "team": TEAM,
            "image": "registry.example/python:1",
            "command": ["python3", "-c"],
            "args": [self._source, "/data"],
            "workers": {"count": WORKERS},
            "resources": {"gpus": 1, "cpu": f"{cpu}m", "memory": f"{memory}Mi"},
            "volumes": [{"claim": f"data-{number}", "path": "/data"}],
            "checkpoint": {"grace": "30s"},
        }

    def _high(self, number: int) -> dict[str, Any]:
        return {
            "type": "training",
            "name": f"high-{number}",
            "team": TEAM,
            "image": "registry.example/shell:1",
            "command": ["/bin/sleep", "1"],
            "priority_class": "high",
            "resources": {"gpus": WORKERS, "cpu": "100m", "memory": "64Mi"},
        }

    def _submit(self, job: dict[str, Any]) -> str:
        return str(self._answer(self._http.post("/api/v1/workloads", json=job))["uid"])

    def _resize(self, gang: str) -> float:
        """Seconds until the kernel holds each worker to another size."""
        now = self._answer(self._http.get(f"/api/v1/workloads/{gang}"))
        cpu, memory = SIZES[1]
        resources = {**now["spec"]["resources"], "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        headers = {"If-Match": f'"{now["version"]}"'}
        began = time.monotonic()
        self._answer(self._http.patch(f"/api/v1/workloads/{gang}", json={"resources": resources}, headers=headers))
        self._until(lambda: self._sizes() == [SIZES[1]] * WORKERS, "the other size")
        return time.monotonic() - began

    def _sizes(self) -> list[tuple[int, int]]:
        """Of the gang's processes."""
        found = (self._node.size(pid) for pid, command in self._node.commands.items() if "MASTER_ADDR" in command)
        return [size for size in found if size is not None]

    def _now(self, data: Path) -> int:
        file = data / "now"
        return int(file.read_text() or 0) if file.exists() else 0

    def _is(self, workload: str, phase: str) -> bool:
        now = self._answer(self._http.get(f"/api/v1/workloads/{workload}"))["phase"]
        if now == "Failed" != phase:
            raise BenchmarkError(f"A workload failed on the node. Its log is at {self._node.log}.")
        return bool(now == phase)

    def _gone_at(self, pod: str) -> float:
        """When its object was deleted, by the clock of the day."""
        self._until(lambda: self._watch.courses[pod].gone_at is not None, f"the end of {pod}")
        at = self._watch.courses[pod].gone_at or 0.0
        return at - time.monotonic() + time.time()

    def _until(self, is_so: Any, what: str) -> None:
        self._node.check()
        wait_until(is_so, what, GIVE_UP_SECONDS)

    def _answer(self, answer: httpx.Response) -> Any:
        if answer.is_error:
            raise BenchmarkError(f"{answer.request.url.path} was answered {answer.status_code}: {answer.text[:500]}")
        return answer.json()
