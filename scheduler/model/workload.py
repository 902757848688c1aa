"""Workloads as the scheduler sees them, and the one table of their life cycle."""

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from gpushare.gpu import NO_LABELS, WHOLE, Labels, Share


class Kind(StrEnum):
    """The three kinds of work on one cluster."""

    TRAINING = "training"
    NOTEBOOK = "notebook"
    INFERENCE = "inference"


class Phase(StrEnum):
    """Where a workload is in its life; TRANSITIONS has the steps between."""

    SUBMITTED = "Submitted"
    QUEUED = "Queued"
    HELD = "Held"
    RESERVED = "Reserved"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    SCALING = "Scaling"
    DEGRADED = "Degraded"
    CHECKPOINTING = "Checkpointing"
    PREEMPTED = "Preempted"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REJECTED = "Rejected"
    EXPIRED = "Expired"


P = Phase  # a short name for the table below
ENDED = frozenset({P.STOPPED, P.SUCCEEDED, P.FAILED, P.REJECTED, P.EXPIRED})
ACTIVE = frozenset({P.ADMITTED, P.STARTING, P.RUNNING, P.SCALING, P.DEGRADED})  # hold capacity and mean to keep it
LEAVING = frozenset({P.CHECKPOINTING, P.SUSPENDING, P.STOPPING})  # hold capacity until their pods are gone
WAITING = frozenset({P.SUBMITTED, P.QUEUED, P.HELD, P.RESERVED})

_UP = {P.CHECKPOINTING, P.SUSPENDING, P.STOPPING, P.QUEUED, P.FAILED, P.SUCCEEDED}
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    P.SUBMITTED: frozenset({P.QUEUED, P.HELD, P.REJECTED, P.STOPPED}),
    # Succeeded and Failed: the Kubernetes object that it is says so, while it was to run once more.
    P.QUEUED: frozenset({P.RESERVED, P.ADMITTED, P.HELD, P.REJECTED, P.EXPIRED, P.STOPPED, P.SUCCEEDED, P.FAILED}),
    P.HELD: frozenset({P.QUEUED, P.STOPPED, P.EXPIRED}),
    P.RESERVED: frozenset({P.ADMITTED, P.QUEUED, P.HELD, P.STOPPED, P.EXPIRED}),
    P.ADMITTED: frozenset({P.STARTING, P.RUNNING, P.SCALING, P.DEGRADED, *_UP}),
    P.STARTING: frozenset({P.RUNNING, P.DEGRADED, P.SCALING, *_UP}),
    P.RUNNING: frozenset({P.SCALING, P.DEGRADED, *_UP}),
    P.SCALING: frozenset({P.RUNNING, P.DEGRADED, *_UP}),
    P.DEGRADED: frozenset({P.RUNNING, P.SCALING, *_UP}),
    P.CHECKPOINTING: frozenset({P.PREEMPTED, P.STOPPING, P.SUCCEEDED, P.FAILED}),
    P.PREEMPTED: frozenset({P.QUEUED, P.STOPPED, P.HELD}),
    P.SUSPENDING: frozenset({P.SUSPENDED, P.STOPPING, P.SUCCEEDED, P.FAILED}),
    P.SUSPENDED: frozenset({P.QUEUED, P.STOPPED}),
    P.STOPPING: frozenset({P.STOPPED, P.SUCCEEDED, P.FAILED}),
    **{ended: frozenset() for ended in ENDED},
}


def may_move(before: Phase, after: Phase) -> bool:
    """Whether the life cycle allows this step; ended phases absorb."""
    return after in TRANSITIONS[before]


class Level(IntEnum):
    """Topology levels from the tightest to the loosest."""

    NVLINK = 0
    NODE = 1
    RACK = 2
    ZONE = 3
    CLUSTER = 4


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """What one worker needs: whole GPUs, or a share of one, or neither (CPU-only).

    cpu_milli is 1/1000 core, memory and gpu_memory (least memory of each whole device) are MiB.
    models lists the GPU models allowed; empty means any. demands is what holds a share, as its team demands it: words
    of `gpushare.backends.catalogue.DEMANDS`. On demand, memory has as much as it may have on a GPU in it.
    """

    gpus: int = 0
    share: Share | None = None
    gpu_memory: int = 0
    cpu_milli: int = 0
    memory: int = 0
    models: tuple[str, ...] = ()
    demands: tuple[str, ...] = ()

    @property
    def milli(self) -> int:
        """Milli-GPU of one worker, as quota counts it."""
        return self.share.guarantee if self.share else self.gpus * WHOLE

    @property
    def on_device(self) -> tuple[int, int]:
        """Milli-GPU and MiB that one worker takes of each device it holds; a whole one is shared with nothing."""
        return (self.share.guarantee, self.share.memory) if self.share else (WHOLE, 0)

    @property
    def labels(self) -> Labels:
        """What it says of those beside its share; none without one."""
        return self.share.labels if self.share else NO_LABELS

    @property
    def min_memory(self) -> int:
        """MiB a device must have for one worker."""
        return max(self.gpu_memory, self.share.most_memory if self.share else 0)


@dataclass(frozen=True, slots=True)
class Gang:
    """How many workers: the wanted count, the least that may start, the most it can use."""

    count: int = 1
    min: int = 1
    max: int = 1


@dataclass(frozen=True, slots=True)
class Role:
    """A pod set beside the workers of a gang, of a fixed size: parameter servers, a launcher, an evaluator.

    Its members start with the workers, on the same GPU model if they request GPUs; a gang is never without one of them.
    Source: podSets of Kueue, tasks of Volcano, replica specs of Kubeflow.
    """

    name: str
    ask: ResourceRequest
    count: int = 1


GPU, *_ = SPREADS = ("gpu", "node", "rack", "zone")
MAIN_ROLE = "worker"  # of those that `Workload.ask` and `Workload.gang` describe


@dataclass(frozen=True, slots=True)
class Topology:
    """How close the workers must (require) and should (prefer) be."""

    require: Level | None = None
    prefer: Level | None = None


class Weights(StrEnum):
    """Where the weights of a replica are: on its device, in its node's memory, or on their way between the two.

    FIXED: on the device for good, as its server did not move them when it was told to.
    """

    DEVICE = ""
    TO_HOST = "ToHost"
    HOST = "Host"
    TO_DEVICE = "ToDevice"
    FIXED = "Fixed"


ON_DEVICE = frozenset({Weights.DEVICE, Weights.FIXED})  # a replica answers at once
IN_HOST = frozenset({Weights.TO_HOST, Weights.HOST, Weights.TO_DEVICE})  # they take memory of the node


@dataclass(frozen=True, slots=True)
class Assignment:
    """One worker's place: its node and the device indices there.

    leaving = its pod is being stopped; reserved = the place is fixed but not free yet (`Place.after`). asleep_at = when
    a replica went on standby: it is loaded, but no request comes to it (None: it serves). lender = what has the device
    of a gang's worker in all accounts but for memory: a service's sleeping replica, or a share beside which it is.
    weights = where those of a replica on standby are.
    """

    rank: int
    node: str
    gpus: tuple[int, ...] = ()
    leaving: bool = False
    reserved: bool = False
    asleep_at: float | None = None
    lender: str = ""
    weights: Weights = Weights.DEVICE


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload that has not ended. Times are cluster-clock seconds; version is the row's.

    `ask` and `gang` are those of its workers, the main role, which alone may be elastic. Members of `roles` have the
    lowest ranks, in the order of their roles: so the workers, from rank `role_members` on, may go on growing.
    """

    id: str
    name: str
    team: str
    kind: Kind
    ask: ResourceRequest
    gang: Gang = Gang()
    topology: Topology = Topology()
    priority: int = 0
    preemptible: bool = True
    phase: Phase = Phase.QUEUED
    version: int = 1
    seq: int = 0  # order of submission; never time, which ties
    attempt: int = 0
    next_rank: int = 0  # what a further worker of this attempt gets; the rank of one that ended is not used again
    submitted_at: float = 0.0
    queued_at: float = 0.0
    started_at: float | None = None  # of the current attempt, when Running was first seen
    attained: int = 0  # milli-GPU seconds held in earlier attempts
    expected_seconds: float | None = None  # of running time, all attempts together
    checkpoint_interval: float | None = None
    checkpointed_at: float | None = None
    grace_seconds: float = 30.0
    not_before: float | None = None  # back-off after a failure
    unmet: tuple[str, ...] = ()  # names in `after` that are not met yet
    placement: tuple[Assignment, ...] = ()  # rank order; empty unless capacity is held or reserved
    after: tuple[str, ...] = ()  # Reserved: starts when these workloads have left
    preempted_at: tuple[float, ...] = ()  # last 24 h, oldest first
    preempted_by: tuple[str, ...] = ()  # ids, same order
    reason: str = ""
    message: str = ""
    reason_at: float = 0.0
    failures: int = 0  # of its own, all attempts together
    deadline: float | None = None  # a training that still waits then expires
    scaled_at: float | None = None  # when this attempt was last given more workers or lost some by a decision
    finishing: bool = False  # one of its workers is done: it does not grow any more
    moving: bool = False  # leaves for another place, which is kept for it until it starts again
    roles: tuple[Role, ...] = ()  # further pod sets
    awake: int | None = None  # of a service with standby: how many of its replicas are to serve; None: all
    standby: int = 0  # replicas that it keeps loaded beyond those, as far as its most allow
    goes_to: tuple[int, ...] = ()  # a running training would run elsewhere: so many workers on each node, most first
    off: tuple[str, ...] = ()  # and on none of these
    spread: str = ""  # a service: over what its replicas are to be spread, of SPREADS; empty: they are packed
    offloads: bool = False  # a service: the weights of its replicas on standby may wait in the memory of their nodes
    role_counts: tuple[int, ...] = ()  # with goes_to: how many of each of its roles are to be there; empty: as now
    asynchronous: bool = False  # its workers do not wait for each other in each step
    batch_wanted: int | None = None  # with goes_to: the batch with which it is to start again; None: as now
    at_risk: bool = False  # a service that is at risk of missing its objective, or has missed it

    @property
    def is_waiting(self) -> bool:
        """Whether it wants workers that it has not been given."""
        if self.phase == Phase.QUEUED:
            return True
        return self.kind == Kind.INFERENCE and self.phase in ACTIVE and self.missing > 0

    @property
    def missing(self) -> int:
        """Workers wanted and not placed; role members not counted."""
        first = self.role_members if self.roles else 0
        return max(0, self.gang.count - sum(not a.leaving and a.rank >= first for a in self.placement))

    @property
    def serving(self) -> int:
        """How many of a service's replicas are to serve: all but those on standby."""
        return self.gang.count if self.awake is None else self.awake

    @property
    def held_milli(self) -> int:
        """Milli-GPU held or reserved, leaving workers included."""
        return sum(self.milli_of(a) for a in self.placement)

    @property
    def role_members(self) -> int:
        """How many members its roles have: the rank of the first worker."""
        return sum(role.count for role in self.roles) if self.roles else 0

    def ask_of(self, rank: int) -> ResourceRequest:
        """What the member with this rank asks."""
        for role in self.roles:
            if rank < role.count:
                return role.ask
            rank -= role.count
        return self.ask

    def milli_of(self, worker: Assignment) -> int:
        """Milli-GPU that this worker holds, as quota counts it: none on a device that is lent."""
        if worker.lender:
            return 0
        return self.ask.milli if not self.roles else self.ask_of(worker.rank).milli

    def on_device(self, worker: Assignment) -> tuple[int, int]:
        """Milli-GPU and MiB that this worker takes of each device it holds."""
        ask = self.ask if not self.roles else self.ask_of(worker.rank)
        if worker.lender:
            return 0, ask.gpu_memory
        return ask.on_device if worker.weights != Weights.HOST else (ask.on_device[0], 0)

    def on_node(self, worker: Assignment) -> tuple[int, int]:
        """1/1000 cores and MiB that this worker takes of its node, its weights included while they are there."""
        ask = self.ask if not self.roles else self.ask_of(worker.rank)
        more = ask.on_device[1] if worker.weights in IN_HOST else 0
        return ask.cpu_milli, ask.memory + more

    def role_of(self, rank: int) -> tuple[str, int]:
        """The role of the member with this rank, and its number within the role, from 0."""
        for role in self.roles:
            if rank < role.count:
                return role.name, rank
            rank -= role.count
        return MAIN_ROLE, rank

    @property
    def uses_gpus(self) -> bool:
        """Whether any member asks GPUs."""
        return self.ask.milli > 0 or bool(self.roles and any(role.ask.milli for role in self.roles))

    @property
    def whole_milli(self) -> int:
        """Milli-GPU of all that it wants, whether placed or not."""
        milli = self.ask.milli * self.gang.count
        return milli + sum(role.ask.milli * role.count for role in self.roles) if self.roles else milli

    def need_milli(self, workers: int) -> int:
        """Milli-GPU that so many more workers need, with the role members as long as these have no place."""
        milli = self.ask.milli * workers
        if self.roles and not any(a.rank < self.role_members and not a.leaving for a in self.placement):
            milli += sum(role.ask.milli * role.count for role in self.roles)
        return milli

    def workers_within(self, milli: int) -> int:
        """How many more workers so much milli-GPU is enough for, no more than are missing if they ask none."""
        room = milli - self.need_milli(0)
        if not self.ask.milli:
            return self.missing if room >= 0 else 0
        return max(0, room) // self.ask.milli


def least(workload: Workload) -> int:
    """The fewest workers worth placing: a whole gang's minimum, one replica of a service."""
    return 1 if workload.kind is Kind.INFERENCE else workload.gang.min


def staying(workload: Workload) -> list[int]:
    """Ranks of workers that hold a place and keep it, ascending; role members are none."""
    first = workload.role_members
    return sorted(a.rank for a in workload.placement if not a.leaving and a.rank >= first)


def most(workload: Workload) -> int:
    """The most workers that it can use: an elastic gang grows up to them."""
    return max(workload.gang.count, workload.gang.max)


def owned(workload: Workload) -> list[int]:
    """Ranks of those workers that stay and hold GPUs of their own, not the devices of sleeping replicas."""
    first = workload.role_members
    return sorted(a.rank for a in workload.placement if not a.leaving and not a.lender and a.rank >= first)


def with_standby(workload: Workload, workers: tuple[Assignment, ...], at: float) -> tuple[Assignment, ...]:
    """These new workers; of a service with standby, those beyond the replicas that are to serve are asleep at once."""
    if workload.awake is None:
        return workers
    serving = sum(not a.leaving and a.asleep_at is None for a in workload.placement)
    few = max(0, workload.awake - serving)
    return (*workers[:few], *(replace(worker, asleep_at=at) for worker in workers[few:]))


def surplus(workload: Workload) -> int:
    """Workers of a gang beyond its count: lent, until any workload can use their room. Those that still start count.

    Those on the devices of sleeping replicas are none of them: only their own lender has a use for that room.
    """
    if workload.kind is not Kind.TRAINING or workload.phase not in (Phase.RUNNING, Phase.SCALING):
        return 0
    return max(0, _owned(workload) - workload.gang.count)


def lent(workload: Workload) -> list[int]:
    """The ranks of those workers: the highest, as they came last."""
    return owned(workload)[-more:] if (more := surplus(workload)) else []


def can_shrink(workload: Workload) -> bool:
    """Whether a running gang has workers beyond its minimum, or one that still grows beyond its count."""
    if workload.kind is not Kind.TRAINING or workload.phase not in (Phase.RUNNING, Phase.SCALING):
        return False
    return _owned(workload) > max(1, workload.gang.min if workload.phase is Phase.RUNNING else workload.gang.count)


def can_grow(workload: Workload) -> bool:
    """Whether an elastic gang runs undisturbed with fewer workers than it can use."""
    if workload.kind is not Kind.TRAINING or workload.phase is not Phase.RUNNING or workload.gang.min >= most(workload):
        return False
    if workload.after or workload.finishing or workload.started_at is None:
        return False
    return len(held := workload.placement) - workload.role_members < most(workload) and not any(a.leaving for a in held)


def _owned(workload: Workload) -> int:
    return sum(not a.leaving and not a.lender for a in workload.placement) - workload.role_members
