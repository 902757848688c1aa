"""The two ports to machines. The simulated cluster and Kubernetes + Prometheus implement both alike.

Times are seconds of the cluster's clock (Unix time; the simulated cluster has a clock of its own).
Every command is idempotent: a pod's name says which worker of which attempt it is.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from autoscaler.latency import ANSWER, Within
from autoscaler.observed import Scrape, Signal
from scheduler.model.snapshot import Node


class PodPhase(StrEnum):
    """What the cluster says of one pod. GONE: it is no longer there."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    GONE = "Gone"


ALIVE = (PodPhase.PENDING, PodPhase.RUNNING)
IN_HOST_MEMORY = -1  # in place of the number of a GPU
# Where a replica's weights are seen to be, or that its server does not move them.
ON_HOST, ON_DEVICE, REFUSED = "host", "device", "refused"
# A node's answers to a resize: it could never do it, or not now. Kubernetes: reasons of PodResizePending.
INFEASIBLE, DEFERRED = "Infeasible", "Deferred"


@dataclass(frozen=True, slots=True)
class PodSpec:
    """One worker to start. spec is the normalised job file; gpus are device indices on node."""

    workload: str
    attempt: int
    rank: int
    size: int  # workers of this attempt that start together
    node: str
    gpus: tuple[int, ...]
    milli: int  # per device
    gpu_memory: int  # MiB per device, 0 = the whole device
    cpu_milli: int
    memory: int
    namespace: str  # the team's
    spec: dict[str, object]
    revision: int = 0  # of its service; 0: it is none
    is_asleep: bool = False  # a replica on standby: no request comes to it
    is_lent: bool = False  # a worker on the device of one: milli is 0, gpu_memory what it may take beside the model
    limit: int = 0  # of a share, milli-GPU: what it may use while others leave it idle; 0: as the job file says
    enforcer: str = ""  # of a share: what holds it to its part on its node, of Enforcer; empty: nothing known
    profile: str = ""  # of a share that is a MIG instance: its profile
    batch: int = 0  # examples of all workers in a step, which its program is told; 0: its job file names none
    on_demand: int = 0  # of a notebook on demand: MiB of each GPU of its node; 0: it is not
    reach: tuple[int, ...] = ()  # of one: the GPUs of its node to which its memory may be moved, its own among them

    @property
    def name(self) -> str:
        """Deterministic: creating it twice creates it once."""
        return pod_name(self.workload, self.attempt, self.rank)


def pod_name(workload: str, attempt: int, rank: int) -> str:
    """`uid-attempt-rank`."""
    return f"{workload}-{attempt}-{rank}"


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod as the cluster has it."""

    workload: str
    attempt: int
    rank: int
    node: str
    gpus: tuple[int, ...]
    phase: PodPhase
    started_at: float | None = None  # containers running
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""  # of a failure or a disappearance: OOMKilled, NodeLost, Evicted, ...
    checkpointed_at: float | None = None  # last checkpoint that is safe
    progress: float | None = None  # part of the work that is safe, 0..1
    cpu_milli: int | None = None  # that its containers run with; None: not known, or being changed
    memory: int | None = None  # MiB, likewise
    resize: str = ""  # why its node has not resized it as it was told: INFEASIBLE, DEFERRED; empty: no reason
    resize_message: str = ""  # the node's words for that
    weights: str = ""  # of a replica that was told to move its weights: ON_HOST, ON_DEVICE or REFUSED; empty: not known
    weights_at: float | None = None  # since when that is so
    weights_message: str = ""  # why its server did not move them
    message: str = ""  # of a failure: what says more of it than the reason, one line

    @property
    def name(self) -> str:
        """The pod's name."""
        return pod_name(self.workload, self.attempt, self.rank)


@dataclass(frozen=True, slots=True)
class Observation:
    """What changed since `cursor`, or everything when is_full (then a pod not listed is gone)."""

    at: float
    cursor: str
    is_full: bool
    pods: tuple[PodSeen, ...]
    nodes: tuple[Node, ...]  # all nodes when is_full, else the changed ones
    gone_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line a pod printed."""

    at: float
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """One decision about a workload, to be shown by the cluster's own tools (`kubectl describe pod`)."""

    workload: str
    namespace: str  # the team's
    reason: str  # one word in CamelCase
    message: str  # a sentence
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """What part of a service's requests the replicas of one revision get, in percent; all others get the rest.

    percent None: nothing is split, each replica gets as many as any other.
    """

    workload: str
    name: str
    namespace: str  # the team's
    revision: int
    before: int  # the revision that gets the rest
    percent: int | None
    within: float | None = None  # seconds in which a request is to be answered, if that is promised
    has_queue: bool = False  # whether our queue stands in front of it (docs/activator.md)
    of: str = ANSWER  # what `within` is measured on, one of autoscaler.latency.MEASURES


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests to a service come, named as its team's job file has it."""

    workload: str
    name: str
    namespace: str  # the team's


class ClusterUnreachable(Exception):  # noqa: N818 - named for what is so, as the cluster's users say it
    """The cluster did not answer; nothing is known to have happened."""


class Cluster(Protocol):
    """Start, stop and watch pods."""

    commands_at_once: int  # how many threads may give it commands at a time; 1: it belongs to one thread

    def now(self) -> float:
        """The cluster's clock."""

    def observe(self, cursor: str | None) -> Observation:
        """Changes since cursor; everything for None or a cursor that is too old."""

    def held(self) -> frozenset[tuple[str, int]]:
        """The devices, by node and index, that the cluster's own accounting keeps for shares, as last heard of.

        Each device with a share is one of them from before its first share starts; once the last one is gone and an
        observation was made, it is given back.
        """

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have `tell` called, from any thread, each time that `observe` has more to show than before.

        Best effort, as a listener also asks by a period. `tell` must return at once and never raise: the thread
        that keeps up with the cluster calls it. It is called after the change is there to be observed.
        """

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Create these pods; those that exist already are left alone."""

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        """Let these pods exist without a place (their node and gpus do not count), so that starting them is one write.

        Pods that were prepared before and are asked for no longer go in the end, but not those of the workloads in
        `starting`, which have a place already. Best effort: no observation shows them, and `start` works without it.
        """

    def publish(self, notes: Sequence[Note]) -> None:
        """Show these decisions as events on the pods. Best effort: what is not shown is not tried again."""

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """End these pods with a chance to checkpoint; those that are gone are done."""

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        """Have a running worker's CPU and memory changed in place; observations show when that is done, or why not."""

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """Have these replicas on shares use so much of their device while others leave it idle; gone ones are done.

        Only what holds shares to their limits on a node makes it so (`Node.enforces_limits`).
        """

    def split(self, split: Split) -> None:
        """Have a service's requests split between two of its revisions from now on, or no longer."""

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """Have requests come to these replicas of a service (on), or to others only; those that are gone are done."""

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """Have these replicas' weights moved to the memory of their nodes (on), or back to their devices.

        memory, weights: MiB that a replica has without its weights, and that these take of its node, which the cluster
        counts for the pod from now on until they are back. Observations show where they are once they have moved, or
        why their server does not move them (`PodSeen.weights`); replicas that are gone are done.
        """

    def keep_address(self, address: Address, *, on: bool) -> None:
        """Have a service's address stay while it has no replica (on), or go now, as no replica will come."""

    def guard(self, address: Address, least: int) -> None:
        """Have evictions leave all of so many replicas of a service but one from now on.

        A service without a pod has nothing to guard: what starts says itself how many are its least.
        """

    def cordon(self, node: str, on: bool) -> None:
        """Take a node out of (or back into) use for new work."""

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        """The last `tail` lines of one worker (None: of all, by time)."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One device over the last scrape: duty in 0..1 of compute time, memory in MiB.

    pods: names of those that are said to have the whole device, by which its index becomes Weft's own
    (cluster/devicenumbers.py). None: the index is Weft's own already.
    """

    node: str
    index: int
    duty: float
    memory: int
    pods: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TrainingUse:
    """One training job over the last minute. None = not known."""

    workload: str
    attempt: int
    step: int | None
    step_seconds: float | None
    samples_per_second: float | None
    data_wait_ratio: float | None  # of a step, 0..1
    sync_ratio: float | None
    gradient_noise: float | None = None  # the gradient noise scale, samples


@dataclass(frozen=True, slots=True)
class WorkerUse:
    """One worker of a training over the last minute. None = not known. In a gang that waits for its slowest worker the
    steps of all take as long, and the exchange of the others is longer by what they wait for it."""

    workload: str
    attempt: int
    rank: int
    step_seconds: float | None
    data_wait_ratio: float | None  # of a step, 0..1
    sync_ratio: float | None
    io_ratio: float | None = None  # of the time in which something in it waited for a disk or volume, 0..1


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One node over the last minute. None = not known."""

    node: str
    disk_ratio: float | None  # of the time in which its busiest disk was busy, 0..1
    line_ratio: float | None  # of the rate of its busiest network interface, sending, 0..1


@dataclass(frozen=True, slots=True)
class ServiceUse:
    """One service over [at - window, at]. None = not known; that is never 0."""

    workload: str
    at: float
    window_seconds: float
    requests_per_second: float | None
    p95_seconds: float | None  # of what its objective is measured on: the whole answer, or the first token
    over_objective: int | None  # requests in the window slower than the objective or failed
    requests: int | None
    queue: int | None


@dataclass(frozen=True, slots=True)
class RevisionUse:
    """What one revision of a service has answered while its requests were split; `over`: of them, late or failed."""

    workload: str
    revision: int
    requests: int
    over: int


@dataclass(frozen=True, slots=True)
class PodUse:
    """One pod over the last minutes. None = not known, as the duty is of a pod on a device that others share."""

    workload: str
    attempt: int
    rank: int
    duty: float | None  # of its devices, 0..1 of compute time
    cpu_milli: int | None
    memory: int | None  # MiB
    throttled_ratio: float | None  # of the time in which its CPU limit held it back, 0..1
    # Of a pod on a device that others share: the part of the device's time in which its own kernels ran, or might be
    # launched, 0..1, by what holds it to its part there. None: nothing tells that.
    own_duty: float | None = None
    # Of a notebook on demand: the GPU of its node that its memory is on, IN_HOST_MEMORY where it is on none. None: not
    # on demand, or nothing tells.
    on_gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """The newest checkpoint of one training's attempt, by what its program says. None = not known."""

    workload: str
    attempt: int
    at: float | None  # cluster clock; never in the future
    progress: float | None  # part of the whole work that is in it, 0..1


class Metrics(Protocol):
    """What Prometheus knows. Each answer may be partial; what is missing is not known."""

    def gpus(self) -> tuple[GpuUse, ...]:
        """Every device that reports."""

    def training(self, workloads: Sequence[str]) -> tuple[TrainingUse, ...]:
        """Step times of these jobs."""

    def workers(self, workloads: Sequence[str]) -> tuple[WorkerUse, ...]:
        """Step times of the workers of these jobs' newest attempts; one that says nothing is left out."""

    def nodes(self) -> tuple[NodeUse, ...]:
        """Disks and lines of every node that reports."""

    def checkpoints(self, workloads: Sequence[str]) -> tuple[Saved, ...]:
        """Checkpoints of these jobs' newest attempts, where no observation of pods tells of them."""

    def services(self, objectives: Mapping[str, Within | None]) -> tuple[ServiceUse, ...]:
        """Load and latency of these services, each with the p95 that it promises (None: nothing)."""

    def scrapes(self, workloads: Sequence[str]) -> Mapping[str, Scrape]:
        """What is told just now of the requests of these services, by workload, for the autoscaler."""

    def pods(self, workloads: Sequence[str]) -> tuple[PodUse, ...]:
        """What the pods of these workloads use."""

    def revisions(self, promises: Mapping[str, tuple[float, Within]]) -> tuple[RevisionUse, ...]:
        """What revisions of these services have answered: for each since when (cluster clock), and the p95 that it
        promises. A revision of which nothing is known is left out."""


class Gateways(Protocol):
    """The queues in front of services (docs/activator.md)."""

    def signals(self) -> Mapping[str, Signal]:
        """What each tells now, by workload; one that says nothing is left out."""
