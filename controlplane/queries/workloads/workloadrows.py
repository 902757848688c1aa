"""Workloads as the API shows them: of objects, or for a list straight from one statement's values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from autoscaler.sla import Standing
from controlplane.cluster.port import PodPhase
from controlplane.domain import addresses
from controlplane.jobspec.podsets import role_of, roles_of
from controlplane.jobspec.quantities import iso
from controlplane.models import Placement, PlacementState, Workload, bulk
from controlplane.queries.reports import sla
from controlplane.queries.scheduling import forecasts
from controlplane.queries.scheduling.snapshot import observed_at
from scheduler.model.workload import ENDED, MAIN_ROLE, Kind, Phase, Role

_ENDED = sorted(phase.value for phase in ENDED)
_SAME = (
    "seq", "name", "phase", "reason", "message", "priority", "preemptible", "attempt", "failures", "retries",
    "exit_code", "progress", "unmet", "version",
)  # fmt: skip
HERE = "weft"  # what manages a workload or team that no Kubernetes object does
TIMES = ("submitted_at", "queued_at", "started_at", "first_started_at", "ended_at")


class Stored(NamedTuple):
    """What a row shows of a workload's columns, under the model's names: an object costs six times as much."""

    uid: UUID
    kind: str
    spec: Any
    seq: int
    name: str
    phase: str
    reason: str
    message: str
    reason_at: float
    priority: int
    preemptible: bool
    attempt: int
    failures: int
    retries: int
    exit_code: int | None
    progress: float | None
    unmet: list[str]
    version: int
    workers: int
    workers_min: int
    workers_max: int
    roles: list[Any]
    gpus: int
    gpu_models: list[str]
    gpu_memory: int
    share_guarantee: int
    share_limit: int
    cpu_milli: int
    memory: int
    resize: Any
    idle_since: float | None
    submitted_at: float
    queued_at: float
    started_at: float | None
    first_started_at: float | None
    ended_at: float | None
    managed_by: str


Seats = Mapping[str, tuple[int, int]]  # placed and running members by role
NO_SEATS: Seats = {}


class Named(NamedTuple):
    """The names of what a workload refers to."""

    team: str
    priority_class: str
    created_by: str | None


_REFERRED = ("team__name", "priority_class__name", "created_by__username")


def rows(found: Iterable[Workload], *, in_full: bool = False) -> list[dict[str, Any]]:
    """Workloads as the API shows them; in_full adds the job file and the expected start.

    Two queries at most, and those of `_standings` where a service is among them.
    """
    listed = list(found)
    seats, stand = _seats(listed), _standings(listed)
    shown = [_row(w, _named(w), seats.get(w.uid, NO_SEATS), stand.get(w.uid), in_full) for w in listed]
    if in_full:
        starts = forecasts.told(str(w.pk) for w in listed if w.phase == Phase.QUEUED)
        for w, one in zip(listed, shown, strict=True):
            if w.cell:
                one["cell"] = w.cell
            start = starts.get(one["uid"])
            one["expected_start"] = None if start is None else forecasts.shown(start)
    return shown


def row(workload: Workload, *, in_full: bool = True) -> dict[str, Any]:
    """One workload as the API shows it."""
    return rows([workload], in_full=in_full)[0]


def listed(uids: Sequence[UUID]) -> list[dict[str, Any]]:
    """The same rows of these workloads in this order; one that is gone is left out.

    In two queries, and those of `_standings` where a service is among them. It checks no rights: the
    uids are of workloads that the user may see.
    """
    if not uids:
        return []
    values = bulk.select(Workload, (*Stored._fields, *_REFERRED), {"uid__among": uids})
    width = len(Stored._fields)
    found = {w.uid: (w, names) for w, names in ((Stored(*v[:width]), Named(*v[width:])) for v in values)}
    stored = [w for w, _ in found.values()]
    seats, stand = _seats(stored), _standings(stored)
    here = [uid for uid in uids if uid in found]
    return [_row(*found[uid], seats.get(uid, NO_SEATS), stand.get(uid), in_full=False) for uid in here]


def address(workload: Workload) -> str | None:
    """Where a notebook or a service that has not ended is reached inside the cluster; None for what has no address."""
    return _address(workload, workload.team.name)


def idle_since(workload: Workload | Stored) -> float | None:
    """Since when a running notebook that may be parked is measured idle; None when it is in use, or it is not known."""
    since, started = workload.idle_since, workload.started_at
    is_of_now = workload.phase == Phase.RUNNING and since is not None and since >= (started or 0.0)
    return since if is_of_now else None


def resize_of(workload: Workload | Stored) -> dict[str, Any] | None:
    """How the CPU and memory of each worker are being changed in place; None when they are not."""
    resize = workload.resize
    if not resize:
        return None
    cpu_milli, memory = resize["to"]
    answers = [": ".join(filter(None, resize["refused"][rank])) for rank in sorted(resize["refused"], key=int)]
    return {
        "cpu_milli": cpu_milli,
        "memory_mib": memory,
        "is_put_back": resize["back"] is None,
        "since": iso(resize["since"]),
        "message": answers[0] if answers else "",
    }


def _named(w: Workload) -> Named:
    return Named(w.team.name, w.priority_class.name, w.created_by.username if w.created_by else None)


def _address(w: Workload | Stored, team: str) -> str | None:
    if w.phase in _ENDED or not isinstance(w.spec, Mapping):
        return None
    return addresses.of(str(w.uid), team, w.spec, settings.NAMESPACE_PREFIX)


def _seats(found: Iterable[Workload | Stored]) -> Mapping[UUID, Seats]:
    """Members placed and running, by workload and role."""
    tried = {w.uid: w.roles for w in found if w.attempt}
    if not tried:
        return {}
    live = {"workload_id__among": tried, "state__not": PlacementState.RELEASED}
    seats: dict[UUID, dict[str, tuple[int, int]]] = {}
    for uid, rank, phase in bulk.select(Placement, ("workload_id", "rank", "pod_phase"), live):
        role = role_of(tried[uid], rank)[0] if tried[uid] else MAIN_ROLE
        here = seats.setdefault(uid, {})
        placed, up = here.get(role, (0, 0))
        here[role] = placed + 1, up + (phase == PodPhase.RUNNING.value)
    return seats


def _standings(found: Iterable[Workload | Stored]) -> Mapping[UUID, Standing]:
    """How those of them stand that are services with an objective. Five queries at most, none without services."""
    services = [w.uid for w in found if w.kind == Kind.INFERENCE.value and w.phase not in _ENDED]
    return sla.standings(observed_at(), services) if services else {}


def _row(w: Workload | Stored, names: Named, seats: Seats, standing: Standing | None, in_full: bool) -> dict[str, Any]:
    spec = w.spec if isinstance(w.spec, Mapping) else {}
    placed, up = seats.get(MAIN_ROLE, (0, 0))
    times = {name: getattr(w, name) for name in TIMES}
    first = starts_after(spec, w.unmet)
    shown = {
        "uid": str(w.uid),
        "team": names.team,
        "type": w.kind,
        "priority_class": names.priority_class,
        "created_by": names.created_by or "",
        "managed_by": w.managed_by or HERE,
        "standing": standing and standing.value,
        "reason_since": iso(w.reason_at) if w.reason and w.reason_at else None,
        "workers": {
            "count": w.workers,
            "min": w.workers_min,
            "max": w.workers_max,
            "placed": placed,
            "running": up,
        },
        "roles": [_role(role, *seats.get(role.name, (0, 0))) for role in roles_of(w.roles)],
        "resources": _resources(w),
        "resize": resize_of(w),
        "after": [one["name"] for one in first],
        "starts_after": first,
        "address": _address(w, names.team),
        "idle_since": None if (since := idle_since(w)) is None else iso(since),
        **{name: getattr(w, name) for name in _SAME},
        **{name: None if at is None else iso(at) for name, at in times.items()},
        "cluster_seconds": times,
    }
    return shown | _in_full(names, spec) if in_full else shown


def starts_after(spec: Mapping[str, Any], unmet: Sequence[str]) -> list[dict[str, Any]]:
    """What it starts after: name, the rule (empty: by the type of the workload named), and whether that is so."""
    found = []
    for one in spec.get("after") or ():
        name, when = (one["name"], one.get("when", "")) if isinstance(one, Mapping) else (one, "")
        found.append({"name": name, "when": when, "met": name not in unmet})
    return found


def _role(role: Role, placed: int, running: int) -> dict[str, Any]:
    share, ask = role.ask.share, role.ask
    parts = (
        {"guarantee_milli": share.guarantee, "limit_milli": share.limit, "memory_mib": share.memory} if share else None
    )
    return {
        "name": role.name,
        "count": role.count,
        "placed": placed,
        "running": running,
        "resources": {
            "gpus": ask.gpus,
            "gpu_models": list(ask.models),
            "share": parts,
            "gpu_memory_mib": ask.gpu_memory,
            "cpu_milli": ask.cpu_milli,
            "memory_mib": ask.memory,
            "milli_gpu": ask.milli * role.count,
        },
    }


def _resources(w: Workload | Stored) -> dict[str, Any]:
    share = {"guarantee_milli": w.share_guarantee, "limit_milli": w.share_limit, "memory_mib": w.gpu_memory}
    return {
        "gpus": w.gpus,
        "gpu_models": w.gpu_models,
        "share": share if w.share_guarantee else None,
        "gpu_memory_mib": 0 if w.share_guarantee else w.gpu_memory,
        "cpu_milli": w.cpu_milli,
        "memory_mib": w.memory,
        "milli_gpu": (w.share_guarantee or w.gpus * 1000) * w.workers
        + sum(role.ask.milli * role.count for role in roles_of(w.roles)),
    }


def _in_full(names: Named, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The job file that would make it again, and the same in one unit each."""
    given = {name: value for name, value in spec.items() if name not in ("normalised", "simulated", "kubernetes")}
    return {"spec": {**given, "priority_class": names.priority_class}, "normalised": spec.get("normalised", {})}
