"""What the API answers, as frozen values.

Fields the server adds later do no harm: `document` is the answer as it came, the attributes are what clients use most.
Times are ISO 8601 text of the cluster's clock; GPUs are counted in milli-GPU (1000 = one GPU), memory in MiB.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from weft.errors import WeftError

Json = Mapping[str, Any]

WAITING = ("Submitted", "Queued", "Held", "Reserved")
UP = ("Running", "Scaling", "Degraded")
ENDED = ("Stopped", "Succeeded", "Failed", "Rejected", "Expired")
LIVE = (*WAITING, "Admitted", "Starting", *UP, "Checkpointing", "Preempted", "Suspending", "Suspended", "Stopping")
PHASES = (*LIVE, *ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One JSON object of the API."""

    document: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, document: object) -> Self:
        """Read an answer; fields it lacks keep their defaults."""
        if not isinstance(document, dict):
            raise WeftError(f"The server answered with {type(document).__name__} where a {cls.__name__} was expected.")
        given = {one.name: document[one.name] for one in fields(cls) if one.name in document}
        return cls(**{**given, "document": document})


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Answer):
    """A workload: what was asked and how it stands.

    `workers` is {count, min, max, placed, running}; `resources` describes one worker, except `milli_gpu`, which
    is all members; `roles` are its pod sets beside the workers; `position` is its place in the queue, None when it has
    none: it does not wait, or no round looks at it yet.
    """

    uid: str = ""
    name: str = ""
    team: str = ""
    type: str = ""
    phase: str = ""
    standing: str | None = None  # of a service, against its objective: violated, at risk, not known, met
    reason: str = ""
    message: str = ""
    priority_class: str = ""
    created_by: str = ""
    managed_by: str = ""  # weft, or the Kubernetes resource by which alone it is changed
    workers: Json = field(default_factory=dict)
    roles: tuple[Json, ...] | list[Json] = ()
    resources: Json = field(default_factory=dict)
    resize: Json | None = None  # CPU and memory that its workers are being given while they run
    position: int | None = None
    attempt: int = 0
    exit_code: int | None = None
    progress: float | None = None
    after: tuple[str, ...] | list[str] = ()
    starts_after: tuple[Json, ...] | list[Json] = ()  # {name, when, met} each
    unmet: tuple[str, ...] | list[str] = ()
    submitted_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    version: int = 0
    address: str | None = None

    @property
    def path(self) -> str:
        """`team/name`, how people write it."""
        return f"{self.team}/{self.name}"

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.phase in ENDED

    @property
    def is_up(self) -> bool:
        """Whether its workers run."""
        return self.phase in UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Answer):
    """What would happen to a job if it were submitted now; nothing was written."""

    will_start: bool = False
    phase: str = ""
    reason: str = ""
    message: str = ""
    numbers: Json = field(default_factory=dict)
    placement: tuple[Json, ...] | list[Json] = ()
    evicts: tuple[Json, ...] | list[Json] = ()
    position: int | None = None
    in_queue: int | None = None
    expected_start: Json | None = None  # low, median, high; 8 in 10 starts are within
    cell: str = ""  # in a cluster that is cut into cells, one with a name
    checks: tuple[Json, ...] | list[Json] = ()
    suggestions: tuple[Json, ...] | list[Json] = ()
    no_suggestions: str = ""  # why there are none, of one that waits
    workload: Json = field(default_factory=dict)
    as_of: str | None = None  # cluster clock: of what moment the cluster is that it was tried on


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Answer):
    """Why a workload is where it is: one reason with its numbers, each check, and what would start it now.

    A check is {name, status, message}; status is ok, fails, or unknown where it was not looked at. A remedy is {kind,
    text, before, after, target, pool, tested, is_smallest, may_apply}; Client.apply_suggestion makes it so.
    """

    uid: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    numbers: Json = field(default_factory=dict)
    since: str | None = None
    position: int | None = None
    in_queue: int | None = None
    evicts: tuple[Json, ...] | list[Json] = ()
    will_start: bool | None = None
    expected_start: Json | None = None  # low, median, high; 8 in 10 starts are within
    checks: tuple[Json, ...] | list[Json] = ()
    suggestions: tuple[Json, ...] | list[Json] = ()
    no_suggestions: str = ""  # why there are none, of one that waits
    changed_by_weft: tuple[Json, ...] | list[Json] = ()  # of a training: {axis, status, since, message, undo} each
    as_of: str | None = None  # cluster clock: on a large cluster of the newest full round; None: none has ended yet


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(Answer):
    """One line of one worker's log; seconds is the cluster's clock."""

    at: str = ""
    seconds: float = 0.0
    rank: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied(Answer):
    """What came of a job file: created, configured or unchanged; the fields that were changed, and the workload."""

    outcome: str = ""
    changed: tuple[str, ...] | list[str] = ()
    workload: Workload = Workload()

    @classmethod
    def of(cls, document: object) -> Self:
        """Read an answer with its workload."""
        if not isinstance(document, dict):
            raise WeftError("The server answered without a workload.")
        return cls(
            outcome=document.get("outcome", ""),
            changed=document.get("changed", ()),
            workload=Workload.of(document.get("workload")),
            document=document,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff(Answer):
    """What applying a job file would change: {field, before, after, can_change} each; uid is None if it is new."""

    uid: str | None = None
    differences: tuple[Json, ...] | list[Json] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Eta(Answer):
    """When a workload is expected to start and to end: {low, median, high} each, None for what is not known."""

    uid: str = ""
    phase: str = ""
    expected_start: Json | None = None
    expected_end: Json | None = None
    basis: str = ""
    as_of: str | None = None  # cluster clock: when it was worked out


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Answer):
    """The GPU hours of a workload, and what they cost at the pools' prices."""

    uid: str = ""
    allocated_gpu_hours: float = 0.0
    computed_gpu_hours: float = 0.0
    idle_gpu_hours: float = 0.0
    cost: float = 0.0
    accounted_until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(Answer):
    """One pod of a workload's present attempt."""

    name: str = ""
    namespace: str = ""
    rank: int = 0
    role: str = ""
    node: str = ""
    state: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs(Answer):
    """A piece of a log; ask again with since=next_since for what follows."""

    lines: tuple[LogLine, ...] = ()
    attempt: int = 0
    next_since: float | None = None

    @classmethod
    def of(cls, document: object) -> Self:
        """Read an answer with its lines."""
        if not isinstance(document, dict):
            raise WeftError("The server answered without a log.")
        return cls(
            lines=tuple(LogLine.of(line) for line in document.get("lines", [])),
            attempt=document.get("attempt", 0),
            next_since=document.get("next_since"),
            document=document,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Answer):
    """One event: its actor, its kind, and why (reason, message)."""

    id: int = 0
    cluster_at: str = ""
    actor: str = ""
    kind: str = ""
    team: str = ""
    name: str = ""
    workload: str | None = None
    phase: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Team(Answer):
    """A team and the GPUs it owns, holds and has borrowed, in milli-GPU."""

    name: str = ""
    parent: str | None = None
    role: str | None = None
    nominal_milli: int = 0
    allocated_milli: int = 0
    borrowed_milli: int = 0
    computing_milli: int | None = None
    waiting: int = 0
    running: int = 0
    shares_with_others: bool = False
    share_demands: tuple[str, ...] | list[str] = ()
    reallocation: str = ""
    notebook_park_minutes: int = 0
    notebook_max_milli: int = 0
    notebook_extend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Answer):
    """What a team owns in one node pool, in milli-GPU; None = no limit."""

    team: str = ""
    pool: str = ""
    nominal_milli: int = 0
    borrowing_limit_milli: int | None = None
    lending_limit_milli: int | None = None
    weight: int = 1
    version: int = 0
    parts: tuple[Json, ...] | list[Json] = ()  # what each cell has of it, where the cluster is cut into cells


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamShare(Answer):
    """How one team stands in one pool, in milli-GPU: quota, entitlement, allocation and recent usage."""

    team: str = ""
    pool: str = ""
    nominal_milli: int = 0
    entitled_milli: int = 0
    allocated_milli: int = 0
    recent_usage_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Answer):
    """How many GPU hours a team may use in each period, and how many it has used in this one."""

    team: str = ""
    period: str = ""
    gpu_hours: int = 0
    is_hard: bool = False
    used_hours: float = 0.0
    is_used_up: bool = False
    until: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass(Answer):
    """A named priority."""

    name: str = ""
    value: int = 0
    preemptible: bool = True
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool(Answer):
    """Nodes with one GPU model."""

    name: str = ""
    gpu_model: str = ""
    nodes: int = 0
    gpus: int = 0
    takes: str = ""
    share_nodes: int = 0
    enforcer: str = ""
    enforced_by: str | None = None
    guarantees: tuple[str, ...] | list[str] = ()
    follows_limit: bool = False
    verified: bool = False
    enforcement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Answer):
    """A machine with its GPUs."""

    name: str = ""
    pool: str = ""
    gpu_model: str = ""
    gpu_count: int = 0
    zone: str = ""
    rack: str = ""
    ready: bool = True
    schedulable: bool = True
    allocated_milli: int = 0
    enforced_by: str | None = None
    guarantees: tuple[str, ...] | list[str] = ()
    follows_limit: bool = False
    verified: bool = False
    enforcement: str = ""
    gpus: tuple[Json, ...] | list[Json] = ()
    cell: str = ""  # of a cluster that is cut into cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted(Answer):
    """What came of an action on one of several workloads; refusal is {status, code, field, message}.

    workload is the JSON of the workload as it stands now; None for one that there is not for this user.
    """

    uid: str = ""
    is_done: bool = False
    refusal: Json | None = None
    workload: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Me(Answer):
    """The signed-in user; teams is a list of {team, role}."""

    username: str = ""
    name: str = ""
    email: str = ""
    is_platform_admin: bool = False
    teams: tuple[Json, ...] | list[Json] = ()
    token: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Answer):
    """A new API token; `token` is shown this once."""

    token: str = field(default="", repr=False)
    id: int = 0
    prefix: str = ""
    name: str = ""
    expires_at: str = ""
