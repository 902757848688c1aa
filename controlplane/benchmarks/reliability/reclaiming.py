"""The process of `reclaim`: Weft's loops over a real node, a service with a replica on standby, a gang that borrows.

The loops are production's, with its adapter and rights, and are turned here one after the other; what the service's
gateway would tell is said by this process. So a decision is carried out with no bell and no other process in between.
"""

import json
import math
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
from django.core.management import call_command

from autoscaler.observed import Scrape, counted
from controlplane.benchmarks.harness import rights
from controlplane.benchmarks.harness.figure import BenchmarkError
from controlplane.benchmarks.scheduling.podwatch import PodWatch
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import pod_name
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.jobspec.spec import parse
from controlplane.loops import actuate, observe, scale, schedule
from controlplane.loops.wiring import Wiring
from controlplane.models import Event, Placement, PlacementState, Workload
from controlplane.services.scheduling import policy
from controlplane.services.workloads import presets, submission
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.worlds.presets import Pool, Preset
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from controlplane.testbed.processes import wait_until
from controlplane.testbed.realnode import elastic, serving
from controlplane.testbed.realnode.claims import claim
from controlplane.testbed.realnode.node import MIB, MODEL, POOL, RealNode, real_node
from gpushare.gpu import WHOLE
from scheduler.model.team import Quota, Team

TEAM = "research"
OWN = 2  # workers of the gang on GPUs of its own; one more borrows
REPLICAS = 2  # of the service: one serves, one sleeps until it is woken
GPUS = OWN + REPLICAS
STATE = 1024  # MiB that each worker holds
HOWS = ("leave", "save")  # what a worker does at SIGTERM (testbed/realnode/elastic.py)
SHELL, PYTHON = "registry.example/shell:1", "registry.example/python:1"
GIVE_UP_SECONDS = 120.0
POLL_SECONDS = 0.02
# A kubelet that has just begun a pod first waits for its next look at all containers, once a second, before it ends
# it. In the product a gang rests for a minute after each change, so a borrower is never as young as here.
RUNS_SECONDS = 2.0
# Without these rests a turn would take minutes; none of them is between a decision and what comes of it.
HASTE: Mapping[str, Mapping[str, float]] = {
    "scheduling": {
        "min_runtime_seconds": 0,
        "settle_seconds": 0,
        "surplus_after_seconds": 0,
        "lend_after_seconds": 0,
    },
    "scaling": {"young_seconds": 0, "fall_seconds": 1},
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One replica woken; seconds from the decision's commit, but for loss."""

    how: str
    ended: float  # until the borrower's process had ended, its memory with it: its GPU is free
    gone: float  # until its pod was gone
    answered: float  # until the woken replica had answered a request as an endpoint of its Service
    loss: float  # from the gang's last step with the borrower until its next one without
    redone: int  # steps that were begun again for that

    @property
    def awake(self) -> float:
        """Until both: the GPU is free, and a request is answered."""
        return max(self.ended, self.answered)


class Gateway(Unmeasured):
    """What the service's gateway tells at each look: a request a second, and of how many that wait."""

    def __init__(self) -> None:
        self.waiting = 0

    def scrapes(self, workloads: Any) -> Mapping[str, Scrape]:
        """Of now."""
        counts = tuple(15.0 * part for part in counted(np.array([0.05])))
        told = Scrape(time.time(), 15.0, 15.0, 15.0 * 0.05, counts, self.waiting, 1 if self.waiting else 0, 1)
        return dict.fromkeys(workloads, told)


def measure(options: Mapping[str, Any]) -> dict[str, Any]:
    """Print each turn as a line of JSON; in the folder that $WEFT_HOME names."""
    folder, count = Path(os.environ["WEFT_HOME"]), int(options["count"])
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    with _bench(folder) as bench:
        for number, how in enumerate(HOWS):
            with bench.gang(number, how) as gang:
                for _ in range(count):
                    print(json.dumps(asdict(gang.turn())), flush=True)
    return {"turns": len(HOWS) * count}


@contextmanager
def _bench(folder: Path) -> Iterator["Bench"]:
    quotas = (Quota(TEAM, POOL, GPUS * WHOLE, borrowing=0, lending=0),)
    preset = Preset("reclaim", 1.0, 0, (), (Pool(POOL, MODEL),), (Team(TEAM),), quotas, ())
    presets.load(preset=preset, password=os.urandom(16).hex(), speed=1.0)
    presets.forget_world(now=time.time())
    policy.change(changes=HASTE, author="benchmark")
    for part in ("cluster", "node"):
        (folder / part).mkdir()
    with test_cluster(folder / "cluster") as server, real_node(server, folder / "node", gpus=GPUS) as node:
        config = rights.scheduler(server, [TEAM], site=replace(rights.SITE, placeholder_image=SHELL))
        with (
            closing(KubernetesCluster(find(str(config)), placeholder_image=SHELL)) as cluster,
            PodWatch(server) as watch,
            ThreadPoolExecutor(4) as pool,
        ):
            yield Bench(server, node, cluster, watch, pool)


class Bench:
    """The loops, and the service that they run."""

    def __init__(
        self,
        server: TestCluster,
        node: RealNode,
        cluster: KubernetesCluster,
        watch: PodWatch,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.server, self.node, self.watch, self.pool = server, node, watch, pool
        self.gateway = Gateway()
        self.namespace = names.namespace(TEAM)
        self._wiring = Wiring(cluster, self.gateway, "benchmark")
        self.rounds(observe)
        self.service = self.submit(_service())
        self.until(lambda: self.is_running(self.service), "the service to run")

    @contextmanager
    def gang(self, number: int, how: str) -> Iterator["Gang"]:
        """A gang that runs, and ends well afterwards. Raises BenchmarkError if its sums are wrong."""
        data = claim(self.server, self.node, self.namespace, f"data-{number}")
        gang = Gang(self, self.submit(_gang(number, how)), how, data)
        yield gang
        gang.end()

    def rounds(self, *loops: ModuleType) -> None:
        """A round of each. Raises BenchmarkError."""
        for loop in loops:
            report = loop.run_once(self._wiring)
            if report.skipped:
                raise BenchmarkError(f"A round of {report.loop} was skipped: {report.skipped}.")

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Turn the loops until it is so. Raises BenchmarkError, with what each workload was last told."""

        def turned() -> bool:
            self.node.check()
            self.rounds(observe, schedule, actuate, scale, actuate)
            return is_so()

        try:
            wait_until(turned, what, GIVE_UP_SECONDS)
        except TimeoutError as late:
            newest = Event.objects.order_by("-id")[:20]
            told = [f"{e.name} {e.kind} {e.reason}: {e.message}" for e in newest]
            rows = [f"{w.name}: {w.phase}, {w.message}" for w in Workload.objects.order_by("seq")]
            raise BenchmarkError("\n".join([f"{late}.", *rows, "Newest events first:", *told])) from late

    def submit(self, job: Mapping[str, Any]) -> str:
        """Its id."""
        (made,) = submission.submit_all([Submission(parse(dict(job)), actor="benchmark", at=time.time())])
        return str(made.pk)

    def is_running(self, workload: str) -> bool:
        """Whether it runs. Raises BenchmarkError if it failed."""
        found = Workload.objects.get(pk=workload)
        if found.phase == "Failed":
            raise BenchmarkError(f"{found.name} failed: {found.message} The node's log is at {self.node.log}.")
        return found.phase == "Running"

    def address(self, pod: str) -> str:
        """Of this pod."""
        found = self.server.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
        return str(found["status"]["podIP"])

    def answered(self, address: str) -> float:
        """When the replica at this address had answered, asked once it was a ready endpoint of its Service."""
        service = names.address_service(self.service, "chat")
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        query = f"{path}?labelSelector=kubernetes.io/service-name={service}"

        def is_endpoint() -> bool:
            found = [one for each in self.server.request("GET", query)["items"] for one in each["endpoints"] or ()]
            return any(address in one["addresses"] and one["conditions"]["ready"] for one in found)

        _poll(is_endpoint, "the woken replica among the endpoints")
        with httpx.Client(trust_env=False, timeout=GIVE_UP_SECONDS) as http:
            http.get(f"http://{address}:{serving.PORT}/1/200").raise_for_status()
        return time.time()


class Gang:
    """The borrower."""

    def __init__(self, bench: Bench, workload: str, how: str, data: Path) -> None:
        self._bench, self._workload, self._how, self._data = bench, workload, how, data

    def turn(self) -> Turn:
        """Lend, wake, and see what came of it."""
        bench = self._bench
        bench.until(self._has_borrowed, "a worker that borrows")
        (lent,) = self._lent()
        (asleep,) = Placement.objects.filter(workload_id=bench.service, asleep_at__isnull=False)
        pod = pod_name(self._workload, lent.attempt, lent.rank)
        bench.watch.courses.pop(pod, None)
        waits = [
            bench.pool.submit(_ended, self._process(lent.rank)),
            bench.pool.submit(bench.answered, bench.address(pod_name(bench.service, asleep.attempt, asleep.rank))),
            bench.pool.submit(self._gone, pod),
        ]
        bench.gateway.waiting = 4000
        bench.rounds(scale)
        decided = time.time()
        if self._lent():
            raise BenchmarkError("The scale loop was told that 4,000 requests wait, and told no borrower to leave.")
        bench.rounds(actuate)
        ended, answered, gone = (one.result() for one in waits)
        bench.gateway.waiting = 0
        _poll(lambda: self._steps()[-1][0] > decided and lent.rank not in self._steps()[-1][2], "a step without it")
        steps = self._steps()
        place = max(number for number, one in enumerate(steps) if lent.rank in one[2])
        self._take_saved(lent.rank)
        loss, redone = steps[place + 1][0] - steps[place][0], steps[place + 1][3]
        return Turn(self._how, ended - decided, gone - decided, answered - decided, loss, redone)

    def end(self) -> None:
        """Have it end, and look whether it has lost anything. Raises BenchmarkError."""
        # Whole: a worker that comes when the others have ended has no gang to join.
        self._bench.until(self._has_borrowed, "a worker that borrows")
        (self._data / "enough").touch()
        done = Workload.objects.filter(pk=self._workload, phase="Succeeded")
        self._bench.until(lambda: not self._bench.is_running(self._workload) and done.exists(), "the gang to end")
        steps = self._steps()
        total = sum(step * sum(rank + 1 for rank in ranks) for _, step, ranks, *_ in steps)
        if [step for _, step, *_ in steps] != list(range(1, len(steps) + 1)) or steps[-1][4] != total:
            raise BenchmarkError(f"The gang's sum is {steps[-1][4]} after {len(steps)} steps, not {total}.")

    def _has_borrowed(self) -> bool:
        """Whether a worker borrows, and has taken part for so long."""
        steps = self._steps()
        ranks = {lent.rank for lent in self._lent()}
        since = next((at for at, _, took_part, *_ in steps if ranks.intersection(took_part)), math.inf)
        return bool(steps) and bool(ranks.intersection(steps[-1][2])) and time.time() - since >= RUNS_SECONDS

    def _lent(self) -> list[Placement]:
        """Its workers on sleeping replicas' GPUs that were not told to leave."""
        live = Placement.objects.filter(workload_id=self._workload, state=PlacementState.BOUND)
        return list(live.exclude(lender=""))

    def _take_saved(self, rank: int) -> None:
        """Away with what the worker saved; raises BenchmarkError unless it is whole, or none was to be saved."""
        saved = {file.name: file.stat().st_size for file in self._data.glob("state-*")}
        if saved != ({f"state-{rank}": STATE * MIB} if self._how == "save" else {}):
            raise BenchmarkError(f"A worker that is to {self._how} left {saved or 'nothing'} behind.")
        for name in saved:
            (self._data / name).unlink()

    def _process(self, rank: int) -> int:
        """The worker's, on this machine; the gang before has ended."""
        wanted = f"RANK={rank}".encode()
        for pid in self._bench.node.commands:
            with suppress(OSError):
                if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return pid
        raise BenchmarkError(f"Worker {rank} of the gang is no process of the node. See {self._bench.node.log}.")

    def _gone(self, pod: str) -> float:
        """When its object was deleted, by the clock of the day."""
        courses = self._bench.watch.courses
        _poll(lambda: pod in courses and courses[pod].gone_at is not None, f"the end of {pod}")
        return (courses[pod].gone_at or 0.0) - time.monotonic() + time.time()

    def _steps(self) -> list[Any]:
        file = self._data / "steps"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _poll(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"Waited {GIVE_UP_SECONDS:g} s for {what}.")
        time.sleep(POLL_SECONDS)


def _ended(pid: int) -> float:
    """When this process ended."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], GIVE_UP_SECONDS)[0]:
            raise BenchmarkError(f"Process {pid} did not end within {GIVE_UP_SECONDS:g} s.")
        return time.time()
    finally:
        os.close(handle)


def _service() -> dict[str, Any]:
    return {
        "type": "inference",
        "name": "chat",
        "team": TEAM,
        "image": PYTHON,
        "command": ["python3", "-c"],
        "args": [Path(serving.__file__).read_text()],
        "port": serving.PORT,
        "replicas": {"min": 1, "max": REPLICAS},
        "standby": 1,
        "objective": {"p95_latency": "500ms"},
        "resources": {"gpu_share": {"guarantee": 1, "memory": "6Gi"}, "cpu": "100m", "memory": "64Mi"},
    }


def _gang(number: int, how: str) -> dict[str, Any]:
    return {
        "type": "training",
        "name": f"gang-{number}",
        "team": TEAM,
        "image": PYTHON,
        "command": ["python3", "-c"],
        "args": [Path(elastic.__file__).read_text(), "/data", str(STATE), how],
        "workers": {"count": OWN, "max": OWN + 1},
        "resources": {"gpus": 1, "gpu_memory": "6Gi", "cpu": "400m", "memory": f"{STATE * 2}Mi"},
        "volumes": [{"claim": f"data-{number}", "path": "/data"}],
        "checkpoint": {"grace": "60s"},
    }
