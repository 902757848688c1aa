"""Workloads as pages and API show them; nobody sees another team's."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from controlplane import addresses
from controlplane import logs as cluster_logs
from controlplane.cluster.port import PodPhase
from controlplane.models import Event, Placement, PlacementState, Workload, bulk, loading
from controlplane.quantities import iso
from controlplane.queries import access
from controlplane.queries.whatif import explanation, preview, queue, remedies, turns
from scheduler.workload import ENDED, WAITING, Phase

__all__ = [
    "event_row",
    "address",
    "events",
    "explanation",
    "filtered",
    "get",
    "idle_since",
    "logs",
    "of",
    "placement",
    "preview",
    "queue",
    "remedies",
    "row",
    "rows",
    "turns",
    "visible",
    "without_a_turn",
]

_ENDED = sorted(phase.value for phase in ENDED)
_RELATED = ("team", "priority_class", "created_by")
TIMES = ("submitted_at", "queued_at", "started_at", "first_started_at", "ended_at")


def visible(user: access.Person) -> QuerySet[Workload]:
    """The workloads that the user may see; for anything that leaves the server."""
    every = Workload.objects.select_related(*_RELATED)
    if access.is_platform_admin(user):
        return every
    return every.filter(team__name__in=access.team_names(user))


def get(user: access.Person, ref: UUID | str) -> Workload | None:
    """One workload by uid, or by `team/name`: the live one of that name, else the newest. None if not visible."""
    if isinstance(ref, str) and "/" in ref:
        team, _, name = ref.partition("/")
        named = visible(user).filter(team__name=team, name=name).order_by("-seq")
        return named.exclude(phase__in=_ENDED).first() or named.first()
    try:
        uid = ref if isinstance(ref, UUID) else UUID(ref)
    except ValueError:
        return None
    found = loading.load(Workload, 'WHERE "t"."uid" = %s', bulk.stored(Workload, "uid", [uid]), related=_RELATED)
    is_theirs = found and (access.is_platform_admin(user) or found[0].team.name in access.team_names(user))
    return found[0] if is_theirs else None


def whole(listed: Sequence[Workload]) -> list[Workload]:
    """The same workloads in their order, with all columns and what they refer to; one that is gone is left out."""
    keys = bulk.stored(Workload, "uid", [w.pk for w in listed])
    where = f'WHERE "t"."uid" IN {bulk.marks(keys)}'
    found = {w.pk: w for w in loading.load(Workload, where, keys, related=_RELATED)} if keys else {}
    return [found[w.pk] for w in listed if w.pk in found]


def of(user: access.Person, uids: Iterable[str]) -> QuerySet[Workload]:
    """Those of these workloads that the user may see."""
    return visible(user).filter(uid__in=list(uids))


def without_a_turn(teams: Collection[str] | None) -> list[str]:
    """Ids of what waits in these teams (None: all) and takes no part in the next round: reserved, held, gated."""
    found = Workload.objects.filter(phase__in=[phase.value for phase in WAITING - {Phase.QUEUED}])
    if teams is not None:
        found = found.filter(team__name__in=teams)
    return [str(uid) for uid in found.order_by("-phase", "seq").values_list("uid", flat=True)]


def filtered(
    found: QuerySet[Workload],
    *,
    team: str | None = None,
    kind: str | None = None,
    phases: Sequence[str] = (),
    name: str | None = None,
    text: str | None = None,
) -> QuerySet[Workload]:
    """Narrow workloads down; text is looked for in names."""
    conditions = {"team__name": team, "kind": kind, "name": name, "name__icontains": text}
    found = found.filter(**{column: value for column, value in conditions.items() if value is not None})
    return found.filter(phase__in=phases) if phases else found


def rows(found: Iterable[Workload], *, in_full: bool = False) -> list[dict[str, Any]]:
    """Workloads as the API shows them; in_full adds the job file. One query more, however many there are."""
    listed = list(found)
    seats = _seats(listed)
    return [_row(w, seats.get(w.pk, (0, 0)), in_full) for w in listed]


def row(workload: Workload, *, in_full: bool = True) -> dict[str, Any]:
    """One workload as the API shows it."""
    return rows([workload], in_full=in_full)[0]


def address(workload: Workload) -> str | None:
    """Where a notebook or a service that has not ended is reached inside the cluster; None for what has no address."""
    if workload.phase in _ENDED or not isinstance(workload.spec, Mapping):
        return None
    return addresses.of(str(workload.pk), workload.team.name, workload.spec, settings.NAMESPACE_PREFIX)


def idle_since(workload: Workload) -> float | None:
    """Since when a running notebook that may be parked is measured idle; None when it is in use, or nobody knows."""
    since, started = workload.idle_since, workload.started_at
    is_of_now = workload.phase == Phase.RUNNING and since is not None and since >= (started or 0.0)
    return since if is_of_now else None


def events(workload: Workload) -> QuerySet[Event]:
    """What happened to it; ordered by `id`, which is the order in which it happened."""
    return Event.objects.filter(workload=workload.pk)


def event_row(event: Event) -> dict[str, Any]:
    """One event as the API shows it. `at` is the wall clock's time, `cluster_at` the cluster's."""
    same = ("id", "actor", "kind", "team", "name", "phase", "reason", "message", "cycle", "data")
    return {
        "at": iso(event.at.timestamp()),
        "cluster_at": iso(event.cluster_at),
        "cluster_seconds": event.cluster_at,
        "workload": str(event.workload) if event.workload else None,
        **{name: getattr(event, name) for name in same},
    }


def placement(workload: Workload) -> dict[str, Any]:
    """Where its workers of the present attempt are, by rank."""
    seats = Placement.objects.filter(workload=workload, attempt=workload.attempt).order_by("rank")
    names = ("rank", "node", "pool", "gpus", "milli", "state", "pod_phase", "bound_at", "released_at")
    workers = [dict(zip(names, values, strict=True)) for values in seats.values_list(*names)]
    for worker in workers:
        for at in ("bound_at", "released_at"):
            worker[at] = None if worker[at] is None else iso(worker[at])
    return {"attempt": workload.attempt, "workers": workers}


def logs(workload: Workload, *, tail: int = 100, since: float | None = None, rank: int | None = None) -> dict[str, Any]:
    """The last lines its pods printed; `next_since` goes on from there. Raises ClusterUnreachable."""
    lines = cluster_logs.read(str(workload.pk), workload.attempt, rank, tail, since) if workload.attempt else ()
    return {
        "attempt": workload.attempt,
        "next_since": lines[-1].at if lines else since,
        "lines": [{"at": iso(x.at), "seconds": x.at, "rank": x.rank, "text": x.text} for x in lines],
    }


def _seats(listed: Sequence[Workload]) -> dict[UUID, tuple[int, int]]:
    """Workers placed and running, by workload."""
    tried = [w.pk for w in listed if w.attempt]
    if not tried:
        return {}
    keys = bulk.stored(Workload, "uid", tried)
    live = f'WHERE "workload_id" IN {bulk.marks(keys)} AND "state" <> %s'
    seats: dict[UUID, tuple[int, int]] = {}
    for uid, phase in bulk.select(
        Placement, ("workload_id", "pod_phase"), live, (*keys, PlacementState.RELEASED.value)
    ):
        placed, up = seats.get(uid, (0, 0))
        seats[uid] = placed + 1, up + (phase == PodPhase.RUNNING.value)
    return seats


def _row(w: Workload, seats: tuple[int, int], in_full: bool) -> dict[str, Any]:
    spec = w.spec if isinstance(w.spec, Mapping) else {}
    same = (
        "seq", "name", "phase", "reason", "message", "priority", "preemptible", "attempt", "failures", "retries",
        "exit_code", "progress", "unmet", "version",
    )  # fmt: skip
    shown = {
        "uid": str(w.pk),
        "team": w.team.name,
        "type": w.kind,
        "priority_class": w.priority_class.name,
        "created_by": w.created_by.username if w.created_by else "",
        "reason_since": iso(w.reason_at) if w.reason and w.reason_at else None,
        "workers": {
            "count": w.workers,
            "min": w.workers_min,
            "max": w.workers_max,
            "placed": seats[0],
            "running": seats[1],
        },
        "resources": _resources(w),
        "after": list(spec.get("after") or ()),
        "address": address(w),
        "idle_since": None if (since := idle_since(w)) is None else iso(since),
        **{name: getattr(w, name) for name in same},
        **{name: None if getattr(w, name) is None else iso(getattr(w, name)) for name in TIMES},
        "cluster_seconds": {name: getattr(w, name) for name in TIMES},
    }
    return shown | _in_full(w, spec) if in_full else shown


def _resources(w: Workload) -> dict[str, Any]:
    share = {"guarantee_milli": w.share_guarantee, "limit_milli": w.share_limit, "memory_mib": w.gpu_memory}
    return {
        "gpus": w.gpus,
        "gpu_models": w.gpu_models,
        "share": share if w.share_guarantee else None,
        "gpu_memory_mib": 0 if w.share_guarantee else w.gpu_memory,
        "cpu_milli": w.cpu_milli,
        "memory_mib": w.memory,
        "milli_gpu": (w.share_guarantee or w.gpus * 1000) * w.workers,
    }


def _in_full(w: Workload, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The job file that would make it again, and the same in one unit each."""
    given = {name: value for name, value in spec.items() if name not in ("normalised", "simulated")}
    return {"spec": {**given, "priority_class": w.priority_class.name}, "normalised": spec.get("normalised", {})}
