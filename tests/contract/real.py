"""The contract's drive over a real API server, whose nodes KWOK plays. Time there is real, so its seconds are short."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness import rights
from controlplane.cluster.images import is_broken
from controlplane.cluster.kubernetes import names, quantities
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.kubernetes.nodes import ENFORCED, LOST_GPUS
from controlplane.cluster.lifecycle import LOST_EXIT
from controlplane.cluster.port import Cluster, Observation, PodSpec, pod_name
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import wait_until
from scheduler.model.workload import Kind
from tests.contract.drive import PATIENCE, TEAM, TEAMS, Told
from tests.contract.sleeper import Sleeper

RUN_SCALE, WAIT_SCALE = 20.0, 200.0  # cluster seconds in a real one: of what pods do, and of waiting
SLOW_START = 2.0  # KWOK counts whole seconds: at least one passes
PATIENCE_SCALE = 6.0
LONG = 60.0  # s that a command waits for a placeholder: beside other tests, KWOK may not run one within 8 s
SAVING = "1"  # s: what a training takes to leave, as it saves first


class Steered(KubernetesCluster):
    """Tells KWOK what the pods it starts will do, and answers for what was done until now, not a moment ago."""

    def __init__(self, server: TestCluster, kubeconfig: Path) -> None:
        super().__init__(find(str(kubeconfig)), lost_after=0.0, placeholder_patience=LONG)
        self._server = server
        self.sleepers: dict[str, Sleeper] = {}  # servers of replicas that say they can move their weights, by pod

    def start(self, pods: Sequence[PodSpec]) -> None:
        self.prepare(pods)
        for pod in pods:
            given = pod.spec.get("kwok")
            steps = {"stop_after": SAVING} if pod.spec.get("type") == Kind.TRAINING else {}
            steps |= given if isinstance(given, dict) else {}
            steps |= {"not_ready": "true"} if is_broken(pod.spec) else {}
            steps |= {"ip": self._sleeper(pod).address} if pod.spec.get("standby_memory") == "host" else {}
            path = f"/api/v1/namespaces/{names.namespace(pod.namespace)}/pods/{pod.name}"
            if steps and self._server.exists(path):  # what could not be prepared is refused below
                self._server.annotate(path, **steps)
        super().start(pods)

    def _sleeper(self, pod: PodSpec) -> Sleeper:
        if pod.name not in self.sleepers:
            self.sleepers[pod.name] = Sleeper(int(pod.spec["port"]), knows=not pod.spec.get("knows_no_sleep"))
        return self.sleepers[pod.name]

    def close(self) -> None:
        super().close()
        for sleeper in self.sleepers.values():
            sleeper.close()

    def observe(self, cursor: str | None) -> Observation:
        everything = super().observe(None)
        return super().observe(cursor) if cursor is not None else everything


class KubernetesDrive:
    """The API server and KWOK. The adapter has the scheduler's rights, the drive itself the administrator's."""

    cluster: Cluster
    patience = 20.0

    def __init__(self, server: TestCluster, *, is_fenced: bool = False) -> None:
        self.server = server
        self.kubeconfig = rights.scheduler(server, TEAMS, is_fenced=is_fenced)
        self.cluster = self.adapter = Steered(server, self.kubeconfig)

    def close(self) -> None:
        self.adapter.close()

    def seconds(self, seconds: float) -> float:
        return seconds / WAIT_SCALE

    def restart(self) -> None:
        self.adapter.close()
        self.cluster = self.adapter = Steered(self.server, self.kubeconfig)

    def lose_gpu(self, node: str, index: int) -> None:
        """As a node's own tools tell it: a device less to give, and which; what computes there ends with an error."""
        path = f"/api/v1/nodes/{node}"
        self.server.patch(path, {"metadata": {"annotations": {LOST_GPUS: str(index)}}})
        left = str(int(self.server.request("GET", path)["status"]["capacity"][names.GPU_RESOURCE]) - 1)
        self.server.patch(f"{path}/status", {"status": {"allocatable": {names.GPU_RESOURCE: left}}})
        pods = self._pods()
        hit = {_workload(pod) for pod in pods if pod["spec"]["nodeName"] == node and index in _gpus(pod)}
        for pod in pods:
            if _workload(pod) in hit:
                meta = pod["metadata"]
                where = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                self.server.annotate(where, fail_after="0", exit_code=str(LOST_EXIT))
        self.server.wait_for(
            lambda: not any(_workload(pod) in hit and pod["status"]["phase"] == "Running" for pod in self._pods()),
            "the end of what computed there",
        )

    def _pods(self) -> list[dict[str, Any]]:
        """All pods on nodes."""
        found: list[dict[str, Any]] = self.server.request("GET", "/api/v1/pods?fieldSelector=spec.nodeName!=")["items"]
        return found

    def wait(self, seconds: float) -> float:
        time.sleep(seconds / WAIT_SCALE)
        return seconds / WAIT_SCALE

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        wait_until(condition, "what was waited for", max(15.0, seconds / PATIENCE_SCALE))

    def lose_node(self, name: str) -> None:
        self.server.annotate(f"/api/v1/nodes/{name}", not_ready="unknown")
        self.server.wait_for(lambda: self._ready(name) != "True", "the node's silence")

    def restore_node(self, name: str) -> None:
        self.server.annotate(f"/api/v1/nodes/{name}", not_ready=None)
        self.server.wait_for(lambda: self._ready(name) == "True" and not self._taints(name), "the node")

    def remove_node(self, name: str) -> None:
        self.server.request("DELETE", f"/api/v1/nodes/{name}")

    def size(self, workload: str, attempt: int, rank: int) -> tuple[int, int]:
        """As its container has it, not as it was asked for."""
        (container,) = self._pod(workload, attempt, rank)["status"]["containerStatuses"]
        amounts = container["resources"]["limits"]
        return quantities.milli(amounts["cpu"]), quantities.mebibytes(amounts["memory"])

    def limit(self, workload: str, attempt: int, rank: int) -> int:
        """As what enforces shares reads it."""
        return int(self._pod(workload, attempt, rank)["metadata"]["annotations"][names.LIMIT])

    def batch(self, workload: str, attempt: int, rank: int) -> int:
        """As its container reads it."""
        env = self._pod(workload, attempt, rank)["spec"]["containers"][0]["env"]
        return next((int(one["value"]) for one in env if one["name"] == "WEFT_BATCH_SIZE"), 0)

    def enforce(self, node: str, *, on: bool) -> None:
        """By the label that such a back-end sets."""
        body = {"metadata": {"labels": {ENFORCED: "true" if on else None}}}
        self.server.request("PATCH", f"/api/v1/nodes/{node}", body, content_type="application/merge-patch+json")

    def split(self, workload: str, name: str) -> tuple[int, int] | None:
        """As the activators read it."""
        path = f"/api/v1/namespaces/{names.namespace(TEAM)}/services/{names.address_service(workload, name)}"
        note = self.server.request("GET", path)["metadata"].get("annotations", {}).get(names.SPLIT)
        return None if note is None else (json.loads(note)["revision"], json.loads(note)["percent"])

    def has_address(self, workload: str, name: str) -> bool:
        """Whether its Service is there, for this workload."""
        wanted = f"metadata.name={names.address_service(workload, name)}"
        found = self.server.request(
            "GET", f"/api/v1/namespaces/{names.namespace(TEAM)}/services?fieldSelector={wanted}"
        )
        return any(one["metadata"]["labels"].get(names.WORKLOAD) == workload for one in found["items"])

    def guarded(self, workload: str) -> int | None:
        """As its PodDisruptionBudget says."""
        path = f"/apis/policy/v1/namespaces/{names.namespace(TEAM)}/poddisruptionbudgets/{names.around(workload)}"
        return int(self.server.request("GET", path)["spec"]["minAvailable"])

    def rotation(self, workload: str) -> set[int]:
        """The pods that its Service lists as ready."""
        service = f"kubernetes.io/service-name={names.address_service(workload, 'work')}"
        where = f"/apis/discovery.k8s.io/v1/namespaces/{names.namespace(TEAM)}/endpointslices?labelSelector={service}"
        ends = [end for one in self.server.request("GET", where)["items"] for end in one["endpoints"] or ()]
        return {int(end["targetRef"]["name"].rpartition("-")[2]) for end in ends if end["conditions"].get("ready")}

    def refuse_resizes(self, workload: str, attempt: int, rank: int, reason: str) -> None:
        path = f"/api/v1/namespaces/{names.namespace(TEAM)}/pods/{pod_name(workload, attempt, rank)}"
        self.server.annotate(path, resize=reason or None)

    def told(self, workload: str, attempt: int, rank: int) -> list[Told] | None:
        """Its Kubernetes events, oldest first."""
        name = pod_name(workload, attempt, rank)
        path = f"/api/v1/namespaces/{names.namespace(TEAM)}/events?fieldSelector=involvedObject.name={name}"
        events = sorted(self.server.request("GET", path)["items"], key=lambda event: str(event["firstTimestamp"]))
        return [(event["reason"], event["message"], event["type"] == "Warning") for event in events]

    def job_file(self, kind: Kind, seconds: float | None = None, exit_code: int = 0) -> dict[str, Any]:
        steps: dict[str, str] = {}
        if exit_code:
            steps = {"fail_after": f"{(seconds or 0.0) / RUN_SCALE:.2f}", "exit_code": str(exit_code)}
        elif seconds is not None:
            steps = {"run_for": f"{seconds / RUN_SCALE:.2f}"}
        file: dict[str, Any] = {
            "type": kind.value,
            "name": "work",
            "image": "registry.example/work:1",
            "normalised": {"gpus": 1, "grace_seconds": 30},
            "kwok": steps,
        }
        return file | ({"port": 8080} if kind == Kind.INFERENCE else {})

    def slow(self, file: dict[str, Any]) -> dict[str, Any]:
        return file | {"kwok": {**file["kwok"], "start_after": f"{SLOW_START:g}"}}

    def _pod(self, workload: str, attempt: int, rank: int) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{names.namespace(TEAM)}/pods/{pod_name(workload, attempt, rank)}"
        found: dict[str, Any] = self.server.request("GET", path)
        return found

    def _ready(self, name: str) -> str:
        conditions = self.server.request("GET", f"/api/v1/nodes/{name}")["status"]["conditions"]
        return str(next(c["status"] for c in conditions if c["type"] == "Ready"))

    def _taints(self, name: str) -> list[Any]:
        found: list[Any] = self.server.request("GET", f"/api/v1/nodes/{name}")["spec"].get("taints", [])
        return found


def _workload(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get(names.WORKLOAD, ""))


def _gpus(pod: dict[str, Any]) -> tuple[int, ...]:
    return names.gpus_of(pod["metadata"]["annotations"].get(names.GPUS, ""))
