"""Clusters and pods for the tests of the simulated cluster."""

from typing import Any

from controlplane.cluster.physics import NotebookProfile, ServiceProfile, TrainingProfile
from controlplane.cluster.port import PodPhase, PodSeen, PodSpec
from controlplane.cluster.simulated import Conditions, SimulatedCluster, Store
from controlplane.cluster.work import Profiles
from scheduler.model.snapshot import Node
from scheduler.model.workload import Kind

TRAINING = TrainingProfile("t", sync_seconds=0.05, checkpoint_seconds=5.0)
PROFILES: Profiles = {
    Kind.TRAINING: (TRAINING, TrainingProfile("unlucky", failure_rate=0.3), TrainingProfile("light", duty=0.4)),
    Kind.NOTEBOOK: (NotebookProfile("n"),),
    Kind.INFERENCE: (ServiceProfile("s"),),
}


def node(name: str, model: str = "A100", rack: str = "r1", gpus: int = 8) -> Node:
    return Node(name, "pool", model, gpus, 81_920, 96_000, 1_048_576, rack=rack, zone="z1")


NODES = (node("a"), node("b"), node("c", rack="r2"), node("d", model="T4"))


def cluster(store: Store | None = None, **conditions: Any) -> SimulatedCluster:
    return SimulatedCluster(NODES, Conditions(**conditions), PROFILES, store)


def training(seconds: float = 600.0, workers: int = 1, **truth: Any) -> dict[str, Any]:
    simulated = {"duration": seconds, "profile": "t", "reference_model": "A100", **truth}
    file: dict[str, Any] = {"type": "training", "checkpoint": {"interval": "60s"}, "simulated": simulated}
    return file | ({"workers": {"count": workers}} if workers > 1 else {})


def share(limit: float, **file: Any) -> dict[str, Any]:
    return {**file, "resources": {"gpu_share": {"guarantee": 0.5, "limit": limit}}}


def pod(uid: str, file: dict[str, Any], where: str = "a:0", rank: int = 0, **values: Any) -> PodSpec:
    """One worker at `node:gpu,gpu`."""
    name, _, gpus = where.partition(":")
    default = {"attempt": 1, "size": 1, "milli": 1000, "gpu_memory": 0, "cpu_milli": 4000, "memory": 1024}
    indices = tuple(int(i) for i in gpus.split(",") if i)
    return PodSpec(uid, rank=rank, node=name, gpus=indices, namespace="nlp", spec=file, **(default | values))


def gang(uid: str, file: dict[str, Any], *where: str, **values: Any) -> list[PodSpec]:
    """The workers of one attempt at these places."""
    return [pod(uid, file, at, rank, **({"size": len(where)} | values)) for rank, at in enumerate(where)]


def finish(world: SimulatedCluster, name: str, most: int = 10_000) -> PodSeen:
    """Let time pass until this pod has ended."""
    answer = world.observe(None)
    for _ in range(most):
        for found in answer.pods:
            if found.name == name and found.phase not in (PodPhase.PENDING, PodPhase.RUNNING):
                return found
        event = world.next_event()
        assert event is not None, f"nothing will happen any more, and {name} has not ended"
        world.advance(event)
        answer = world.observe(answer.cursor)
    raise AssertionError(f"{name} has not ended after {most} events")


def seen(world: SimulatedCluster, name: str) -> PodSeen:
    """What the cluster says of a pod now."""
    return next(p for p in world.observe(None).pods if p.name == name)


def to_running(world: SimulatedCluster, *names: str) -> None:
    """Let time pass until these pods run."""
    while any(seen(world, name).phase == PodPhase.PENDING for name in names):
        event = world.next_event()
        assert event is not None
        world.advance(event)


def running_seconds(found: PodSeen) -> float:
    """How long a pod ran."""
    assert found.started_at is not None
    assert found.ended_at is not None
    return found.ended_at - found.started_at
