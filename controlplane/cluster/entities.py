"""What the simulated cluster is made of, as plain rows that a store can keep.

Each entity with a `due` has one event of its own ahead of it, at that time. Everything else about the future follows
from what stands here, so that a cluster that was killed goes on from its rows alone.
"""

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from controlplane.cluster.port import ON_HOST, PodPhase, PodSpec
from controlplane.cluster.serving.history import Capacity
from controlplane.cluster.work import Work
from controlplane.jobspec.members import role_members
from gpushare.gpu import Enforcer
from scheduler.model.snapshot import Node

OVER = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE})


class Row:
    """An entity as JSON: its fields in order, what is derived left out."""

    TABLE: ClassVar[str] = ""

    def body(self) -> str:
        """The row's text."""
        return json.dumps([_plain(getattr(self, name)) for name in _kept(type(self))], separators=(",", ":"))

    @classmethod
    def of(cls, body: str) -> Self:
        """The entity that `body` wrote; what an older version did not write yet has its default."""
        return cls(**dict(zip(_kept(cls), json.loads(body), strict=False)))


@dataclass(slots=True)
class Machine(Row):
    """One node, how often it has failed so far, and when it next fails or comes back."""

    TABLE: ClassVar[str] = "machine"

    node: Node
    due: float | None = None
    failures: int = 0
    is_removed: bool = False
    revision: int = 0
    refuses: str = ""  # what it answers to resizes, whatever room it has

    def __post_init__(self) -> None:
        given: Any = self.node
        if isinstance(given, list):  # as read from a row
            values = dict(zip((f.name for f in fields(Node)), given, strict=False))  # of an older version: less
            self.node = Node(**{**values, "lost": tuple(values["lost"])})

    @property
    def key(self) -> str:
        """Its row's key."""
        return self.node.name


@dataclass(slots=True)
class Pod(Row):
    """One worker. due: when its containers run (Pending), or it is gone (stopping), or its person leaves."""

    TABLE: ClassVar[str] = "pod"

    workload: str
    attempt: int
    rank: int
    node: str
    gpus: tuple[int, ...]
    milli: int
    gpu_memory: int
    cpu_milli: int
    memory: int
    name: str
    phase: PodPhase
    created_at: float
    due: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""
    stopped_at: float | None = None  # when it was told to end
    deadline: float | None = None  # when its grace ends
    revision: int = 0
    wanted: tuple[int, int] | None = None  # CPU and memory that its node did not give it
    refused: tuple[str, str] = ("", "")  # the reason and the node's words for that
    made_of: int = 0  # the revision of its service; 0: not known
    slowness: float = 1.0  # how many times as long its image takes for a request
    is_asleep: bool = False  # a replica on standby: no request comes to it
    is_lent: bool = False  # a worker on the device of one
    limit: int = 0  # milli-GPU of its device, at most; 0: as its job file says
    weights: str = ""  # where a replica's are: ON_HOST or ON_DEVICE, empty while they move; at first they never have
    weights_at: float | None = None  # since when they are there
    host_memory: int = 0  # MiB of the node's memory that they take, also while they move
    goes_to: str = ""  # where they are on their way to, until `due`
    on_demand: bool = False  # a notebook whose memory is on a GPU of the node for cells only (ondemand.py)

    def __post_init__(self) -> None:
        self.gpus, self.phase, self.refused = tuple(self.gpus), PodPhase(self.phase), (self.refused[0], self.refused[1])
        self.wanted = None if self.wanted is None else (self.wanted[0], self.wanted[1])

    @staticmethod
    def create(spec: PodSpec, at: float) -> "Pod":
        """A pod that has just been created."""
        return Pod(
            spec.workload, spec.attempt, spec.rank, spec.node, spec.gpus, spec.milli, spec.gpu_memory,
            spec.cpu_milli, spec.memory, spec.name, PodPhase.PENDING, at, made_of=spec.revision,
            is_asleep=spec.is_asleep, is_lent=spec.is_lent, limit=spec.limit,
            on_demand=spec.enforcer == Enforcer.ON_DEMAND,
        )  # fmt: skip

    @property
    def key(self) -> str:
        """Its row's key."""
        return self.name

    @property
    def group(self) -> tuple[str, int]:
        """Its attempt."""
        return self.workload, self.attempt

    @property
    def device_memory(self) -> int:
        """MiB that it takes of its device now; on demand it books none there."""
        return 0 if self.weights == ON_HOST or self.on_demand else self.gpu_memory

    @property
    def node_memory(self) -> int:
        """MiB that it takes of its node now."""
        return self.memory + self.host_memory

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.phase in OVER


@dataclass(slots=True)
class Attempt(Row):
    """The workers of one attempt together, and how far their work is.

    done: part of the work at `since`, growing by `speed` per second from then on. due: when it ends by itself, by
    success or, with `fail_rank`, by a failure of that worker. segments: (since, done, speed), oldest first.
    """

    TABLE: ClassVar[str] = "attempt"

    workload: str
    attempt: int
    size: int
    spec: dict[str, Any]
    cores: float = 0.0  # CPU cores asked for per device, before any resize
    due: float | None = None
    began_at: float | None = None  # when all workers first ran
    since: float = 0.0
    done: float = 0.0
    speed: float = 0.0
    safe: float = 0.0
    safe_at: float | None = None
    saving_until: float | None = None  # told to stop: the last checkpoint is written by then
    fail_rank: int | None = None
    fail_at: float = math.inf
    fails_with: tuple[int, str] = (1, "Error")
    segments: list[tuple[float, float, float]] = field(default_factory=list)
    batch: int = 0  # examples of all workers in a step that its pods were told; 0: none
    # derived
    work: Work | None = field(default=None, compare=False, metadata={"derived": True})
    pods: dict[int, Pod] = field(default_factory=dict, compare=False, metadata={"derived": True})

    @property
    def key(self) -> str:
        """Its row's key."""
        return f"{self.workload}-{self.attempt}"

    @property
    def members(self) -> list[Pod]:
        """The pods that work or will, by rank: neither over nor told to end."""
        pods = (self.pods[rank] for rank in sorted(self.pods))
        return [pod for pod in pods if not pod.is_over and pod.stopped_at is None]

    @property
    def workers(self) -> list[Pod]:
        """Its members without role members: those that do the work, by which its speed is measured."""
        first = role_members(self.spec)
        return [pod for pod in self.members if pod.rank >= first]

    def done_at(self, at: float) -> float:
        """Part of the work that is done."""
        return min(1.0, self.done + self.speed * max(0.0, at - self.since))

    def checkpoint_at(self, at: float) -> tuple[float, float | None]:
        """(part of the work, when) of the newest checkpoint."""
        interval = self.work.checkpoint_interval if self.work else None
        if self.began_at is None or not interval or self.speed <= 0:
            return self.safe, self.safe_at
        newest = self.began_at + math.floor((at - self.began_at) / interval) * interval
        if newest <= self.began_at or newest < self.since:
            return self.safe, self.safe_at
        return self.done_at(newest), newest


@dataclass(slots=True)
class Volume(Row):
    """A training's checkpoint: it outlives attempts."""

    TABLE: ClassVar[str] = "volume"

    workload: str
    safe: float
    safe_at: float

    @property
    def key(self) -> str:
        """Its row's key."""
        return self.workload


@dataclass(slots=True)
class Service(Row):
    """What served a service's requests when, lately: since `point`, a state of its requests a few minutes ago.

    The first of history says since when there is a service; minutes are for logs. See controlplane/cluster/requests.py.
    """

    TABLE: ClassVar[str] = "service"

    workload: str
    attempt: int  # whose job file says what load comes in
    spec: dict[str, Any]
    history: list[Capacity] = field(default_factory=list)
    point: list[Any] | None = None
    minutes: list[Any] = field(default_factory=list)
    split: list[int] | None = None  # (revision, percent) of its requests
    work: Work | None = field(default=None, compare=False, metadata={"derived": True})

    def __post_init__(self) -> None:
        self.history = [c if isinstance(c, Capacity) else Capacity.of(c) for c in self.history]

    @property
    def key(self) -> str:
        """Its row's key."""
        return self.workload


Entity = Machine | Pod | Attempt | Volume | Service
_names: dict[type, tuple[str, ...]] = {}


def _kept(kind: type) -> tuple[str, ...]:
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = tuple(f.name for f in fields(kind) if not f.metadata.get("derived"))
    return names


def _plain(value: Any) -> Any:
    if isinstance(value, Node | Capacity):
        return [getattr(value, f.name) for f in fields(value)]
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value
