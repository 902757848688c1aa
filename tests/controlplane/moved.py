"""A world in which the loop may move trainings: their steps follow from where their workers run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from controlplane.cluster.port import PodPhase, PodSeen, TrainingUse, WorkerUse
from controlplane.loops import schedule
from controlplane.models import Experiment, NodePool, Placement, Quota, Team, Workload
from tests.controlplane.state import NoMetrics, PodCluster, World, node, story

MINUTE, HOUR = 60.0, 3600.0
LONG = 200 * HOUR


@dataclass
class Steps(NoMetrics):
    """How long a step takes follows from the nodes of the workers that run; most of it is the exchange."""

    cluster: Any = None
    seconds: Callable[[frozenset[str]], float] = lambda on: 0.4 + 0.3 * len(on)
    sync: float = 0.6

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        return tuple(found for uid in workloads if (found := self._of(uid)) is not None)

    def _of(self, uid: str) -> TrainingUse | None:
        mine = [p for p in self.cluster.pods.values() if p.workload == uid and p.phase == PodPhase.RUNNING]
        if not mine:
            return None
        noise = 1.0 + 0.01 * (round(self.cluster.at / MINUTE) % 3)
        took = self.seconds(frozenset(pod.node for pod in mine)) * noise
        return TrainingUse(uid, max(pod.attempt for pod in mine), 7, took, None, 0.0, self.sync)


def world_of(metrics: Any) -> World:
    """Four nodes with 8 GPUs, and a team that wants changes."""
    cluster = PodCluster(nodes={name: node(name) for name in "abcd"})
    metrics.cluster = cluster
    made = World(cluster=cluster, metrics=metrics)
    Quota.objects.create(team=Team.objects.get(name="red"), pool=NodePool.objects.get(), nominal=32_000)
    want("automatic")
    return made


def want(mode: str) -> None:
    Team.objects.filter(name="red").update(reallocation=mode)


def running(world: World, *nodes: str, **asked: Any) -> Workload:
    asked = {"checkpoint": {"interval": "10m"}, "workers": 4, **asked}
    training = world.submit("fit", resources={"gpus": 1, "cpu": 4, "memory": "1Gi"}, **asked)
    world.run(training, *(nodes or "abcd"))
    world.later(LONG)
    return training


def turn(world: World) -> None:
    """What leaves is gone, what is to start runs, and the scheduler decides."""
    leaving = Placement.objects.filter(state="Leaving").values_list("workload_id", "attempt", "rank")
    for uid, attempt, rank in list(leaving):
        world.cluster.set(Workload.objects.get(pk=uid), PodPhase.GONE, rank, attempt=attempt)
    world.observe()
    schedule.run_once(world.wiring)
    world.actuate()
    for uid in {pod.workload for pod in world.cluster.pods.values() if pod.phase == PodPhase.PENDING}:
        world.cluster.set(Workload.objects.get(pk=uid), PodPhase.RUNNING)
    world.observe()


def pass_minutes(world: World, count: int) -> None:
    for _ in range(count):
        world.later(MINUTE - 2)
        turn(world)
        world.account()


def until(world: World, training: Workload, status: str, most: int = 60) -> Experiment:
    for _ in range(most):
        pass_minutes(world, 1)
        tried = Experiment.objects.filter(workload=training).order_by("-id").first()
        if tried is not None and tried.status == status:
            return tried
    raise AssertionError([(e.axis, e.status, e.message) for e in Experiment.objects.all()])


def on(training: Workload) -> list[str]:
    """The nodes of its workers now."""
    live = Placement.objects.filter(workload=training).exclude(state="Released").order_by("rank")
    return list(live.values_list("node", flat=True))


def told(training: Workload) -> list[str]:
    return [kind for kind in story(training) if kind.startswith("Change") or kind == "Preempted"]


@dataclass
class Slowed(Steps):
    """What runs on `slow` computes so many times as long; its peers wait for it."""

    slow: str = "b"
    factor: float = 2.0

    def training(self, workloads: Any) -> tuple[TrainingUse, ...]:
        found = (super(Slowed, self)._of(uid) for uid in workloads)
        return tuple(replace(one, step_seconds=self._step(one.workload), sync_ratio=0.1) for one in found if one)

    def workers(self, workloads: Any) -> tuple[WorkerUse, ...]:
        running = [p for p in self.cluster.pods.values() if p.phase == PodPhase.RUNNING and p.workload in workloads]
        return tuple(self._worker(pod) for pod in running)

    def _worker(self, pod: PodSeen) -> WorkerUse:
        step = self._step(pod.workload)
        own = self._own(pod.node) / step
        return WorkerUse(pod.workload, pod.attempt, pod.rank, step, 0.0, round(1 - own, 6), None)

    def _own(self, on: str) -> float:
        noise = 1.0 + 0.01 * (round(self.cluster.at / MINUTE) % 3)
        return noise * (self.factor if on == self.slow else 1.0)

    def _step(self, uid: str) -> float:
        mine = [p for p in self.cluster.pods.values() if p.workload == uid and p.phase == PodPhase.RUNNING]
        return 1.05 * max(self._own(pod.node) for pod in mine)
