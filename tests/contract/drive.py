"""What the contract tests need of an adapter beside the two ports: let time pass, break a node, say what a pod does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from controlplane.cluster.port import Cluster, Observation, PodPhase, PodSeen, PodSpec, pod_name
from controlplane.cluster.simulated import SimulatedCluster
from scheduler.model.snapshot import Node
from scheduler.model.workload import Kind

TEAM = "nlp"
TEAMS = (TEAM, "vision")
Told = tuple[str, str, bool]  # reason, message, whether it is a warning
PATIENCE = 180.0  # cluster seconds: the longest start is one minute


class Drive(Protocol):
    """One adapter with three nodes of 8 GPUs: a, b and c."""

    cluster: Cluster
    patience: float  # seconds of this machine that what is waited for may take at least

    def seconds(self, seconds: float) -> float:
        """So long on the cluster's clock is what tests call so many seconds, of all but what pods do."""

    def restart(self) -> None:
        """The process of ours dies with all it knows of the cluster, and another takes its place."""

    def lose_gpu(self, node: str, index: int) -> None:
        """Break a device under what runs on it; a gang whose worker ends so ends as a whole."""

    def wait(self, seconds: float) -> float:
        """Let time pass; tell how many seconds of the cluster's clock."""

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Let time pass until the condition holds. Fails when it does not within so many seconds."""

    def lose_node(self, name: str) -> None:
        """Make a node stop answering."""

    def restore_node(self, name: str) -> None:
        """Make it answer again."""

    def remove_node(self, name: str) -> None:
        """Take a node away for good."""

    def size(self, workload: str, attempt: int, rank: int) -> tuple[int, int]:
        """The CPU (milli) and memory (MiB) that the cluster gives a worker."""

    def limit(self, workload: str, attempt: int, rank: int) -> int:
        """The milli-GPU that a worker on a share is said to use at most."""

    def batch(self, workload: str, attempt: int, rank: int) -> int:
        """The examples of all workers in a step that a member of a training is told; 0: none are."""

    def enforce(self, node: str, *, on: bool) -> None:
        """Have a node say that what is on it holds shares to their limits, or not."""

    def split(self, workload: str, name: str) -> tuple[int, int] | None:
        """Which revision of a service gets how many percent of its requests; None: they are not split."""

    def rotation(self, workload: str) -> set[int]:
        """The ranks of a service to which requests are sent."""

    def has_address(self, workload: str, name: str) -> bool:
        """Whether requests to a service come anywhere: to a replica, or to the queue in front of it."""

    def guarded(self, workload: str) -> int | None:
        """How many replicas of a service evictions leave; None: others evict no pod of this cluster."""

    def refuse_resizes(self, workload: str, attempt: int, rank: int, reason: str) -> None:
        """Have a worker's node answer its resizes with this reason of the port; empty: do them."""

    def told(self, workload: str, attempt: int, rank: int) -> list[Told] | None:
        """What the cluster's own tools say of a worker beside its state; None: this cluster has no such tools."""

    def job_file(self, kind: Kind, seconds: float | None = None, exit_code: int = 0) -> dict[str, Any]:
        """The job file of something that runs for so long (None: until stopped) and ends with this exit code."""

    def slow(self, file: dict[str, Any]) -> dict[str, Any]:
        """The same job file for something whose containers take a second to start."""


NODES = tuple(Node(name, "pool", "A100", 8, 81_920, 96_000, 1_048_576, rack="r1", zone="z1") for name in "abc")


class SimulatedDrive:
    """The simulated cluster: its clock is simply moved."""

    patience = 0.0

    def __init__(self, cluster: SimulatedCluster, again: Callable[[], SimulatedCluster] | None = None) -> None:
        self.cluster = self.metrics = cluster
        self._again = again

    def seconds(self, seconds: float) -> float:
        return seconds

    def restart(self) -> None:
        if self._again is not None:
            self.cluster = self.metrics = self._again()

    def lose_gpu(self, node: str, index: int) -> None:
        self.cluster.lose_gpu(node, index)

    def wait(self, seconds: float) -> float:
        self.cluster.advance(self.cluster.now() + seconds)
        return seconds

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = self.cluster.now() + seconds
        while not condition():
            event = self.cluster.next_event()
            assert event is not None, "nothing will happen any more"
            assert event <= deadline, f"not within {seconds} s"
            self.cluster.advance(event)

    def lose_node(self, name: str) -> None:
        self.cluster.lose_node(name)

    def restore_node(self, name: str) -> None:
        self.cluster.restore_node(name)

    def remove_node(self, name: str) -> None:
        self.cluster.remove_node(name)

    def size(self, workload: str, attempt: int, rank: int) -> tuple[int, int]:
        return self.cluster.size(workload, attempt, rank)

    def limit(self, workload: str, attempt: int, rank: int) -> int:
        return self.cluster.limit_of(workload, attempt, rank)

    def batch(self, workload: str, attempt: int, rank: int) -> int:
        return self.cluster.batch_of(workload, attempt)

    def enforce(self, node: str, *, on: bool) -> None:
        known = next(one for one in self.cluster.observe(None).nodes if one.name == node)
        self.cluster.add_nodes([replace(known, enforces_limits=on)])

    def split(self, workload: str, name: str) -> tuple[int, int] | None:
        return self.cluster.split_of(workload)

    def rotation(self, workload: str) -> set[int]:
        return self.cluster.rotation(workload)

    def has_address(self, workload: str, name: str) -> bool:
        return self.cluster.has_address(workload)

    def guarded(self, workload: str) -> int | None:
        return None

    def refuse_resizes(self, workload: str, attempt: int, rank: int, reason: str) -> None:
        name = pod_name(workload, attempt, rank)
        self.cluster.refuse_resizes(seen(self.cluster.observe(None))[name].node, reason)

    def told(self, workload: str, attempt: int, rank: int) -> list[Told] | None:
        return None

    def job_file(self, kind: Kind, seconds: float | None = None, exit_code: int = 0) -> dict[str, Any]:
        truth: dict[str, object] = {"duration": seconds or 1e6}
        if exit_code:
            truth |= {"fail_at": 0.5, "exit_code": exit_code}
        file: dict[str, Any] = {"type": kind.value, "simulated": truth}
        if kind == Kind.TRAINING:
            truth["profile"] = "resnet-like-large"  # of no luck: one drawn by the id may lose a worker now and then
            file["checkpoint"] = {"interval": "60s"}
        if kind == Kind.INFERENCE:
            file["objective"] = {"p95_latency": "250ms"}
        return file

    def slow(self, file: dict[str, Any]) -> dict[str, Any]:
        return file  # all do


def pod(drive: Drive, uid: str = "w", **changes: Any) -> PodSpec:
    """A worker of a training on one GPU of node a that runs for ten minutes."""
    rank = changes.get("rank", 0)
    values: dict[str, Any] = {
        "attempt": 1,
        "rank": rank,
        "size": 1,
        "node": "a",
        "gpus": (rank,),
        "milli": 1000,
        "gpu_memory": 0,
        "cpu_milli": 4000,
        "memory": 16_384,
        "namespace": TEAM,
        "spec": drive.job_file(Kind.TRAINING, 600.0),
    }
    return PodSpec(uid, **(values | changes))


def gang(drive: Drive, size: int, uid: str = "w", **changes: Any) -> list[PodSpec]:
    """All workers of one attempt on node a."""
    file = drive.job_file(Kind.TRAINING, 600.0) | {"workers": {"count": size}}
    return [pod(drive, uid, **({"rank": rank, "size": size, "spec": file} | changes)) for rank in range(size)]


def seen(observation: Observation) -> dict[str, PodSeen]:
    """The pods of an observation by name."""
    return {p.name: p for p in observation.pods}


def phase(drive: Drive, name: str) -> PodPhase | None:
    """What the cluster says of one pod now; None if it does not list it."""
    found = seen(drive.cluster.observe(None)).get(name)
    return found.phase if found else None


def run(drive: Drive, pods: list[PodSpec]) -> None:
    """Start pods and wait until all run."""
    drive.cluster.start(pods)
    drive.until(lambda: all(phase(drive, p.name) == PodPhase.RUNNING for p in pods))
