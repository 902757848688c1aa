"""The job file: read strictly into a frozen Spec, written back with defaults and normalised values.

One schema serves the form, REST and the CLI (jobfile.py holds its table, jobrules.py the rules
between fields). All faults are named at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from autoscaler.profile import Profile
from controlplane.jobspec import batch as batches
from controlplane.jobspec import counts, gpushares, jobfile, jobrules, quantities
from controlplane.jobspec import objective as objectives
from controlplane.jobspec import profile as profiles
from controlplane.jobspec.objective import Objective
from controlplane.jobspec.scaling import HOST, is_native
from controlplane.jobspec.shapes import Faults, FieldError, Schema, below, shown
from scheduler.model.workload import Gang, Kind, Level, ResourceRequest, Role, Topology

__all__ = [
    "Checkpoint", "FieldError", "Needed", "Objective", "Spec", "SpecError", "amended", "is_amendable", "parse",
    "schemas", "stored",
]  # fmt: skip

AMENDABLE = (
    "priority_class", "workers", "replicas", "resources", "topology", "expected_duration", "max_duration", "labels",
)  # fmt: skip
OF_SERVICES = ("image", "env", "objective", "gateway", "rollout", "standby", "standby_memory")  # and of services only
BESIDE = ("normalised", "kubernetes")  # of a stored document: what is no field of the job file
LISTS = ("command", "args", "secrets", "volumes", "pull_secrets")
REMOVABLE = (
    "priority_class",
    "topology",
    "expected_duration",
    "max_duration",
    "labels",
    "env",
    "objective",
    "gateway",
    "rollout",
    "standby",
    "standby_memory",
)  # null in a change takes them away


class SpecError(Exception):
    """A job file with faults, all of them."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__(" ".join(error.message for error in self.errors))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How often work is saved, and how long it may take to save and leave; seconds."""

    interval: float | None = None
    grace: float = 30.0


class Needed(NamedTuple):
    """A workload of the team that this one starts after; `when` is empty for what its kind means by being met."""

    name: str
    when: str = ""


@dataclass(frozen=True, slots=True)
class Rollout:
    """How a new revision comes: seconds for each replica, percent of the requests, its steps (the first is weight)."""

    deadline: float = 600.0
    weight: int = 100
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Gateway:
    """The queue in front of a service: requests at once a replica, seconds until late, how many may wait."""

    slots: int
    late_after: float
    waiting: int


@dataclass(frozen=True, slots=True)
class Idle:
    """What happens to an idle notebook; seconds."""

    park_after: float | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """One job file without faults. Durations are seconds, deadline is cluster-clock seconds, memory is MiB.

    priority_class is "" for the platform's default. `text` is the file as given, with defaults filled in.
    """

    type: Kind
    name: str
    team: str
    priority_class: str
    image: str
    workers: Gang  # a service: min and max are those of replicas, count is min and 1 at least
    resources: ResourceRequest
    roles: tuple[Role, ...] = ()  # pod sets beside the workers
    topology: Topology = Topology()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    ports: tuple[int, ...] = ()
    secrets: tuple[Mapping[str, str], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    shared_memory: int = 0
    extra: Mapping[str, int] = field(default_factory=dict)  # other devices of each worker, by resource name
    pull_secrets: tuple[str, ...] = ()
    run_as_user: int | None = None
    framework: str = ""
    checkpoint: Checkpoint = Checkpoint()
    expected_duration: float | None = None
    max_duration: float | None = None
    deadline: float | None = None
    retries: int = 0
    after: tuple[Needed, ...] = ()
    idle: Idle = Idle()
    objective: Objective | None = None
    health: str = ""  # path of a service that answers once it is ready
    rollout: Rollout = Rollout()
    gateway: Gateway | None = None
    idle_after: float | None = None  # of a service that may have no replica: s without a request before; else None
    standby: int = 0  # replicas of a service that are kept loaded beyond those that serve, as far as its most allow
    spread: str = ""  # of a service: over what its replicas are spread; empty: they are packed
    asynchronous: bool = False  # of a training: no worker waits in a step for the slowest one
    offloads: bool = False  # the weights of those may wait in the memory of their nodes
    on_demand: bool = False  # of a notebook: it has a GPU only while a cell runs
    is_native: bool = False  # a service that Kubernetes' own autoscaler scales
    max_limit: int = 0  # of a service on shares, milli-GPU: up to what its replicas' limit is raised; 0: it is not
    labels: Mapping[str, str] = field(default_factory=dict)
    simulated: Mapping[str, Any] | None = None  # what only the simulated cluster knows
    text: Mapping[str, Any] = field(default_factory=dict)
    profile: Profile | None = None  # what a service says of its requests
    batch: batches.Batch | None = None  # of a training
    cell: str | None = None  # the part of a cluster with cells that it is to be in

    @property
    def first(self) -> int:
        """How many workers it is to have at first; a service loads its standby at once."""
        return min(self.workers.count + self.standby, self.workers.max)

    @property
    def port(self) -> int | None:
        """The port a service or notebook is reached at."""
        return self.ports[0] if self.ports else None

    def document(self) -> dict[str, Any]:
        """The file as the API answers it and the database keeps it: the text, and `normalised` beside it."""
        extra = {"simulated": dict(self.simulated)} if self.simulated is not None else {}
        return {**self.text, **extra, "normalised": self.normalised()}

    def normalised(self) -> dict[str, Any]:
        """The values in one unit each: milli-GPU, MiB, 1/1000 cores, seconds; what is absent is null."""
        gang = self.workers
        shared = (_shared_memory(role["resources"]) for role in self.text.get("roles", ()))
        roles = [
            {"name": role.name, "count": role.count, **_normalised(role.ask, size)}
            for role, size in zip(self.roles, shared, strict=True)
        ]
        return {
            "workers": {"count": gang.count, "min": gang.min, "max": gang.max},
            **({"roles": roles} if roles else {}),
            **_normalised(self.resources, self.shared_memory, self.max_limit),
            "checkpoint_interval_seconds": self.checkpoint.interval,
            "grace_seconds": self.checkpoint.grace,
            "expected_seconds": self.expected_duration,
            "max_seconds": self.max_duration,
            "deadline_seconds": self.deadline,
            "park_after_seconds": self.idle.park_after,
            "objective": self.objective and self.objective.normalised(),
            **({"gateway": asdict(self.gateway)} if self.gateway else {}),
            **({"profile": profiles.normalised(self.profile)} if self.profile else {}),
            **({"batch": batches.normalised(self.batch)} if self.batch else {}),
            **({"standby": self.standby} if self.standby else {}),
            **({"offloads": True} if self.offloads else {}),
            **({"on_demand": True} if self.on_demand else {}),
            **({} if self.idle_after is None else {"scale_to_zero_after_seconds": self.idle_after}),
        }


def _normalised(ask: ResourceRequest, shared_memory: int, max_limit: int = 0) -> dict[str, Any]:
    share = ask.share
    raised = {"max_limit": max_limit} if max_limit else {}
    return {
        "gpus": ask.gpus,
        "gpu_share": share
        and {"guarantee": share.guarantee, "limit": share.limit, "memory_mib": share.most_memory, **raised},
        "gpu_milli": ask.milli,
        "gpu_memory_mib": ask.gpu_memory,
        "cpu_milli": ask.cpu_milli,
        "memory_mib": ask.memory,
        "shared_memory_mib": shared_memory,
    }


def _shared_memory(resources: Mapping[str, Any]) -> int:
    given = resources.get("shared_memory")
    return quantities.memory_mib(given) if given is not None else 0


def parse(document: object, *, allow_simulated: bool = False) -> Spec:
    """Read one job file. Raises SpecError with every fault; `simulated` is for presets only."""
    faults = Faults()
    if not isinstance(document, Mapping):
        raise SpecError([FieldError("", f"The job file is {shown(document)}. Give one object.")])
    simulated = document.get("simulated") if allow_simulated else None
    if simulated is not None:
        document = {name: value for name, value in document.items() if name != "simulated"}
    kind = _kind(document)
    record = jobfile.RECORDS[kind]
    values = record.read(document, "", faults)
    jobrules.check(values, faults)
    if faults.errors:
        raise SpecError(faults.errors)
    return _spec(values, _text(record.filled(document)), simulated)


def stored(document: Mapping[str, Any]) -> Spec:
    """A stored document read again. Raises SpecError if what is allowed has changed since."""
    given = {name: value for name, value in document.items() if name not in BESIDE}
    return parse(given, allow_simulated=True)


def amended(document: Mapping[str, Any], changes: Mapping[str, Any]) -> Spec:
    """The stored document with some fields changed, read again as a whole.

    Only AMENDABLE fields may change, of a service those of OF_SERVICES as well; null takes away what is not required.
    Inside workers and replicas each number changes alone; what else holds several values is given whole. Raises
    SpecError.
    """
    faults = Faults()
    if not isinstance(changes, Mapping):
        raise SpecError([FieldError("", f"The changes are {shown(changes)}. Give one object.")])
    fixed = {name: value for name, value in document.items() if name not in (*BESIDE, "simulated")}
    merged = dict(fixed)
    for name, value in changes.items():
        if not is_amendable(name, str(fixed.get("type", ""))):
            faults.add(below("", name), _not_amendable(name, fixed))
        elif value is None and name in REMOVABLE:
            merged.pop(name, None)
        elif name in ("workers", "replicas") and isinstance(value, Mapping):
            merged[name] = _resized(fixed.get(name, {}), value)
        else:
            merged[name] = value
    try:
        spec = parse({**merged, **_simulated(document)}, allow_simulated=True)
    except SpecError as error:
        raise SpecError((*faults.errors, *error.errors)) from None
    if faults.errors:
        raise SpecError(faults.errors)
    return spec


def is_amendable(name: str, kind: str) -> bool:
    """Whether a field of this type's job file may change after the submission."""
    return name in AMENDABLE or (kind == Kind.INFERENCE and name in OF_SERVICES)


def schemas() -> dict[str, Schema]:
    """The JSON schema of each type's job file, by type."""
    out = {}
    for kind, record in jobfile.RECORDS.items():
        schema = record.schema()
        schema["properties"]["type"] = {"const": kind.value, "description": "The type."}
        out[kind.value] = schema
    return out


def _resized(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A gang of one fixed size stays so when only its count changes."""
    is_fixed = before.get("min") == before.get("count") == before.get("max")
    kept = {name: value for name, value in before.items() if name not in ("count", "min", "max")}
    return {**(kept if is_fixed and changes.keys() == {"count"} else before), **changes}


def _simulated(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"simulated": document["simulated"]} if "simulated" in document else {}


def _not_amendable(name: str, fixed: Mapping[str, Any]) -> str:
    field_name = below("", name)
    if name in fixed or any(name == f.name for record in jobfile.RECORDS.values() for f in record.fields):
        return f"{field_name} cannot change after the submission. Submit a new workload."
    names = [name for name in (*AMENDABLE, *OF_SERVICES) if is_amendable(name, str(fixed.get("type", "")))]
    return f"{field_name} is not a field that can change. Fields here: {', '.join(names)}."


def _kind(document: Mapping[str, Any]) -> Kind:
    """The type, to know which table applies; without a usable one, the type that has most of the fields given."""
    given = document.get("type")
    if isinstance(given, str) and given in tuple(Kind):
        return Kind(given)
    return max(Kind, key=lambda kind: sum(f.name in document for f in jobfile.OWN[kind]))


def _text(filled: dict[str, Any]) -> dict[str, Any]:
    """Defaults that depend on other fields."""
    if workers := filled.get("workers"):
        filled["workers"] = {"count": workers["count"], "min": workers["count"], "max": workers["count"], **workers}
    if replicas := filled.get("replicas"):
        filled["replicas"] = {"min": replicas["min"], "max": max(1, replicas["min"]), **replicas}
    for resources in (filled["resources"], *(role["resources"] for role in filled.get("roles") or ())):
        _fill(resources)
    return filled


def _fill(resources: dict[str, Any]) -> None:
    if share := resources.get("gpu_share"):
        resources["gpu_share"] = {"guarantee": share["guarantee"], "limit": share["guarantee"], **share}
    elif "gpus" not in resources:
        resources["gpus"] = 0


# --- from values to a Spec --------------------------------------------------------------------


def _rollout(given: Mapping[str, Any] | None) -> Rollout:
    steps = given["steps"] or () if given else ()
    return Rollout(given["deadline"], steps[0] if steps else given["weight"], steps) if given else Rollout()


def _spec(values: Mapping[str, Any], text: Mapping[str, Any], simulated: Mapping[str, Any] | None) -> Spec:
    kind = Kind(values["type"])
    checkpoint, idle = values.get("checkpoint"), values.get("idle")
    rollout = values.get("rollout")
    lists: dict[str, Any] = {name: values[name] or () for name in LISTS}
    return Spec(
        type=kind,
        name=values["name"],
        team=values["team"],
        image=values["image"],
        priority_class=values["priority_class"] or "",
        workers=counts.workers(kind, values),
        resources=_ask(values["resources"], on_demand=bool(values.get("on_demand"))),
        roles=tuple(Role(r["name"], _ask(r["resources"]), r["count"]) for r in values.get("roles") or ()),
        topology=_levels(values["topology"]),
        env=values["env"] or {},
        working_dir=values["working_dir"] or "",
        ports=(values["port"],) if kind is Kind.INFERENCE else values["ports"] or (),
        shared_memory=values["resources"]["shared_memory"] or 0,
        extra=values["resources"]["extra"] or {},
        run_as_user=values["run_as_user"],
        framework=values.get("framework") or "",
        checkpoint=Checkpoint(checkpoint["interval"], checkpoint["grace"]) if checkpoint else Checkpoint(),
        expected_duration=values.get("expected_duration"),
        max_duration=values["max_duration"],
        deadline=values.get("deadline"),
        retries=values.get("retries") or 0,
        after=tuple(Needed(one["name"], one["when"] or "") for one in values["after"] or ()),
        idle=Idle(idle["park_after"]) if idle else Idle(),
        objective=objectives.of_values(values.get("objective")),
        profile=profiles.of_values(values.get("profile")),
        batch=batches.of_values(values.get("batch")),
        health=values.get("health") or "",
        rollout=_rollout(rollout),
        gateway=(g := values.get("gateway")) and Gateway(g["slots"], g["late_after"], g["waiting"]),
        idle_after=counts.idle_after(kind, values),
        standby=counts.standby(kind, values),
        spread=counts.spread(kind, values),
        asynchronous=counts.asynchronous(kind, values),
        offloads=values.get("standby_memory") == HOST,
        on_demand=bool(values.get("on_demand")),
        is_native=is_native(values),
        max_limit=(values["resources"]["gpu_share"] or {}).get("max_limit") or 0,
        labels=values["labels"] or {},
        cell=values["cell"],
        simulated=simulated,
        text=text,
        **lists,
    )


def _ask(asked: Mapping[str, Any], *, on_demand: bool = False) -> ResourceRequest:
    """What one member asks. On demand its memory has room for what it has on a GPU: the copy is the process's own."""
    share = asked["gpu_share"] and gpushares.share_of(asked["gpu_share"], on_demand=on_demand)
    return ResourceRequest(
        gpus=asked["gpus"] or 0,
        share=share,
        gpu_memory=asked["gpu_memory"] or 0,
        cpu_milli=asked["cpu"],
        memory=asked["memory"] + (share.on_demand if share else 0),
        models=asked["gpu_model"] or (),
    )


def _levels(topology: Mapping[str, str] | None) -> Topology:
    require, prefer = ((topology or {}).get(name) for name in ("require", "prefer"))
    return Topology(Level[require.upper()] if require else None, Level[prefer.upper()] if prefer else None)
