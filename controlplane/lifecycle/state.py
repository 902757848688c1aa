"""What the life cycle knows of a workload and of the places that it holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.adopted.kinds import RESOURCES
from controlplane.jobspec.podsets import role_ask, role_of
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind, Phase, Weights

# States of a place: fixed but not free yet; held; held until its pod is gone; free again.
RESERVED, BOUND, LEAVING, RELEASED = "Reserved", "Bound", "Leaving", "Released"
REQUEUE, FAIL, SUCCEED = (
    "requeue",
    "fail",
    "succeed",
)  # State.intent, while the workers of an attempt are leaving: what comes then


@dataclass(slots=True)
class State:
    """One workload. Times are seconds of the cluster's clock. Changed only through Changes, which notes it."""

    id: str
    name: str
    kind: str
    phase: Phase
    version: int
    attempt: int
    next_rank: int
    gpus: int
    share_guarantee: int  # milli-GPU; 0: whole GPUs
    share_limit: int  # of a service's replicas now, milli-GPU; it may be raised
    workers: int  # wanted
    workers_min: int  # the least; of a service 0 where it may have no replica while nothing comes
    roles: Sequence[Any]  # further pod sets, as controlplane/jobspec/podsets.py writes them
    retries: int
    failures: int
    queued_at: float
    not_before: float | None
    started_at: float | None
    first_started_at: float | None
    ended_at: float | None
    exit_code: int | None
    attained: int  # milli-GPU seconds
    grace_seconds: float
    checkpointed_at: float | None
    progress: float | None
    preempted_at: list[float]
    preempted_by: list[str]
    scaled_at: float | None
    finishing: bool
    moving: bool
    reserved_after: list[str]
    unmet: list[str]
    intent: str
    reason: str
    message: str
    reason_at: float
    cpu_milli: int  # of one worker, as the scheduler counts it
    memory: int  # MiB, likewise
    managed_by: str  # the Kubernetes resource by whose object alone it is changed; empty: none
    resize: dict[str, Any] | None  # how both are being changed in place (resizing.py); None: they are not
    revision: int  # of a service: the number of the image and environment that it is to have
    surge: int  # replicas wanted beyond `workers`, while a revision replaces the one before
    rollout: dict[str, Any] | None  # how far that is (rollouts.py); None: nothing is being replaced
    awake: int | None  # of a service with standby: how many replicas are to serve; None: all
    standby: int  # replicas that it keeps loaded beyond those
    goes_to: list[int] | None  # a running training asks to run with so many workers on each node, most first
    off: list[str] | None  # and on none of these nodes
    role_counts: list[int] | None  # and with so many members of each of its roles; empty: as now
    batch: int | None  # examples in a step that a training's program is told; None: its job file names none
    batch_wanted: int | None  # with goes_to: with how many it is to start again; None: as now
    batch_before: int | None  # what it has again if an attempt with the batch on trial fails; None: none is
    seen: int = field(default=0, kw_only=True)  # the version when it was read
    changed: set[str] = field(default_factory=set, kw_only=True)

    @property
    def after(self) -> Sequence[str]:
        """Those that have to leave before it gets its places, as the scheduler calls it."""
        return self.reserved_after

    @property
    def milli(self) -> int:
        """Milli-GPU of one worker, as quota counts it."""
        return self.share_guarantee or self.gpus * WHOLE

    @property
    def role_members(self) -> int:
        """How many members its roles have: the rank of the first worker."""
        return sum(count for _, count, _ in self.roles)

    @property
    def is_service(self) -> bool:
        """Whether its workers come and go one by one."""
        return self.kind == Kind.INFERENCE

    @property
    def is_owned(self) -> bool:
        """Whether it is an object of Kubernetes whose own controller makes its pods, and ends them."""
        return self.managed_by in RESOURCES

    def milli_of(self, rank: int) -> int:
        """Milli-GPU of the member with this rank."""
        ask = role_ask(self.roles, rank)
        return self.milli if ask is None else ask.milli

    def role_of(self, rank: int) -> tuple[str, int]:
        """The role of the member with this rank, and its number within the role."""
        return role_of(self.roles, rank)


@dataclass(slots=True)
class Seat:
    """One place of a workload: a rank of one attempt on a node."""

    pk: int  # 0: it has no row
    workload: str
    attempt: int
    rank: int
    node: str
    milli: int
    state: str
    pod_phase: str
    bound_at: float | None
    revision: int = 1  # of its service, that its pod is made of
    asleep_at: float | None = None  # since when the replica is on standby; None: it serves
    lender: str = ""  # the service on whose sleeping replica's device it runs
    weights: str = Weights.DEVICE  # where those of a replica on standby are: Weights
    weights_at: float | None = None  # when they were last told to move
    released_at: float | None = None
    is_changed: bool = False

    @property
    def is_live(self) -> bool:
        """Whether it still holds or reserves its place."""
        return self.state != RELEASED

    @property
    def seconds_held(self) -> int:
        """Whole seconds between two whole seconds of the clock, so that parts of an interval add up exactly."""
        if self.bound_at is None or self.released_at is None:
            return 0
        return max(0, int(self.released_at) - int(self.bound_at))
