"""Weft over a cluster with a real node: production's adapter with production's rights, its loops turned by hand."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from controlplane.benchmarks.harness import rights
from controlplane.cluster.kubernetes import names
from controlplane.cluster.kubernetes.adapter import KubernetesCluster
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.port import Metrics
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.loops import account, actuate, observe, schedule
from controlplane.loops.wiring import Wiring
from controlplane.manifests.site import Site
from controlplane.models import Event, NodePool, PriorityClass, Quota, Team, Workload
from controlplane.services.scheduling import policy
from controlplane.services.workloads import submission
from controlplane.services.workloads.submission import Submission
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.node import MODEL, POOL
from tests.controlplane.state import job
from tests.servers import wait_until

TEAM = "nlp"
OTHER_TEAM = "vision"  # without a quota of its own: it borrows
NAMESPACE = names.namespace(TEAM)
GPUS = 2  # of the node
IMAGE = "registry.example/shell:1"
PATIENCE = 60.0  # s: a real container starts in one or two, and is seen to end a second after it did
PASSING = ("Starting", "Waiting")  # what may be over before it is seen


class Product:
    """The loops, and what a person may do and see."""

    def __init__(self, server: TestCluster, site: Site = rights.SITE) -> None:
        self.server = server
        config = rights.scheduler(server, [TEAM, OTHER_TEAM], site=replace(site, placeholder_image=IMAGE))
        self.cluster = KubernetesCluster(find(str(config)), placeholder_image=IMAGE)
        self._wiring = Wiring(self.cluster, Unmeasured(), "test")
        team, _ = (Team.objects.create(name=name) for name in (TEAM, OTHER_TEAM))
        PriorityClass.objects.create(name="normal", value=100, is_default=True)
        PriorityClass.objects.create(name="high", value=200)
        self.turn()
        Quota.objects.create(team=team, pool=NodePool.objects.get(name=POOL), nominal=GPUS * 1000)
        policy.change(changes={"scheduling": {"min_runtime_seconds": 0}}, author="root")

    def measure(self, metrics: Metrics) -> None:
        """From now on this measures."""
        self._wiring = replace(self._wiring, metrics=metrics)

    def close(self) -> None:
        """Let go of the cluster."""
        self.cluster.close()

    def turn(self) -> None:
        """One round of each loop that runs work."""
        self.decide()
        self.carry_out()

    def decide(self) -> None:
        """A round up to its decisions, which the cluster has not been told yet."""
        self._round(observe)
        self._round(schedule)

    def carry_out(self) -> None:
        """Tell the cluster what was decided."""
        self._round(actuate)

    @property
    def metrics(self) -> Metrics:
        """What measures."""
        return self._wiring.metrics

    def _round(self, loop: ModuleType) -> None:
        report = loop.run_once(self._wiring)
        assert not report.skipped, report

    def submit(
        self, name: str, script: str, *, team: str = TEAM, gpus: int = 1, memory: str = "64Mi", **asked: Any
    ) -> Workload:
        """A training on the real node: a shell script, unless it names another program."""
        resources = {"gpus": gpus, "gpu_model": [MODEL], "cpu": "100m", "memory": memory}
        program = {"image": IMAGE, "command": ["/bin/sh", "-c"], "args": [script]}
        asked = {**program, "resources": resources, **asked}
        at = self.cluster.now()
        (made,) = submission.submit_all([Submission(job(name, team, **asked), actor="alice", at=at)])
        return made

    def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Turn the loops until it is so, for so long."""

        def is_so() -> bool:
            self.turn()
            return condition()

        wait_until(is_so, what, seconds)

    def until_measured(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Turn the loops, and add up what was measured, until it is so."""

        def is_so() -> bool:
            self._round(account)
            return condition()

        self.until(is_so, what, seconds)

    def until_phase(self, workload: Workload, phase: str, attempt: int = 1) -> None:
        """Turn the loops until the workload is there."""

        def is_there() -> bool:
            workload.refresh_from_db()
            return (workload.phase, workload.attempt) == (phase, attempt)

        try:
            self.until(is_there, f"{workload.name} in {phase}")
        except TimeoutError as late:
            raise AssertionError(f"{workload.phase} after {self.story(workload)}: {workload.message}") from late

    def story(self, workload: Workload) -> list[tuple[str, str]]:
        """Its events and their reasons, without those that come by chance."""
        events = Event.objects.filter(workload=workload.pk).order_by("id")
        return [(e.kind, e.reason) for e in events if e.kind not in PASSING]

    def log(self, workload: Workload, rank: int = 0) -> list[str]:
        """What this worker of its present attempt has printed."""
        return [line.text for line in self.cluster.logs(str(workload.pk), workload.attempt, rank, 100, None)]
