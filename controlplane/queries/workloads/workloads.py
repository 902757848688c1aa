"""Workloads as pages and API show them; a user sees only those of their own teams."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from controlplane.domain.reclaimprice import price_of
from controlplane.jobspec.podsets import role_of
from controlplane.jobspec.quantities import iso
from controlplane.models import Event, Placement, Workload, loading
from controlplane.queries.accounts import access
from controlplane.queries.rounds.kept import is_large
from controlplane.queries.workloads import standby
from controlplane.queries.workloads.suggestions import verdict
from controlplane.queries.workloads.whatif import explanation, line, preview, queue, suggestions
from controlplane.queries.workloads.workloadrows import address, idle_since, listed, resize_of, row, rows
from controlplane.runtime import logs as cluster_logs
from scheduler.model.workload import ENDED, WAITING, Phase

__all__ = [
    "address",
    "event_row",
    "events",
    "explanation",
    "filtered",
    "get",
    "idle_since",
    "is_large",
    "line",
    "listed",
    "live",
    "logs",
    "of",
    "open_to",
    "placement",
    "preview",
    "queue",
    "resize_of",
    "row",
    "rows",
    "suggestions",
    "verdict",
    "visible",
    "without_a_turn",
]

_ENDED = sorted(phase.value for phase in ENDED)
_RELATED = ("team", "priority_class", "created_by")


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
    found = loading.load(Workload, {"uid": uid}, related=_RELATED)
    is_theirs = found and (access.is_platform_admin(user) or found[0].team.name in access.team_names(user))
    return found[0] if is_theirs else None


def live(user: access.Person, team: str, name: str) -> Workload | None:
    """The workload of that name that has not ended; None if there is none, or not for this user."""
    return visible(user).filter(team__name=team, name=name).exclude(phase__in=_ENDED).first()


def of(user: access.Person, uids: Iterable[str]) -> QuerySet[Workload]:
    """Those of these workloads that the user may see."""
    return visible(user).filter(uid__among=list(uids))


def open_to(
    user: access.Person, found: Iterable[Workload], action: str, roles: Mapping[str, access.Role] | None = None
) -> set[UUID]:
    """Those of them on which the user may do this; another priority is the submitter's and the team admins' to give.

    action: one of bulkactions.VERBS. roles: by team, where they are known already; else two queries.
    """
    mine = access.roles(user) if roles is None else roles
    needs = access.Verb.CHANGE if action == "priority" else access.Verb.ACT

    def may(w: Workload) -> bool:
        is_own = needs == access.Verb.CHANGE and w.created_by_id == user.pk
        return access.allows(mine.get(w.team.name), access.Verb.ACT if is_own else needs)

    return {w.pk for w in found if may(w)}


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
        "reclaim_price": None if (price := price_of(event.kind, event.reason, event.data)) is None else price.shown(),
    }


def placement(workload: Workload) -> dict[str, Any]:
    """Where its workers of the present attempt are, by rank."""
    seats = Placement.objects.filter(workload=workload, attempt=workload.attempt).order_by("rank")
    names = (
        "rank", "node", "pool", "gpus", "milli", "state", "pod_phase", "bound_at", "released_at", "asleep_at", "lender",
        "weights",
    )  # fmt: skip
    workers = [dict(zip(names, values, strict=True)) for values in seats.values_list(*names)]
    standby.told(workers)
    for worker in workers:
        worker["role"], worker["index"] = role_of(workload.roles, worker["rank"])
        worker["is_lent"] = bool(worker.pop("lender"))
        for at in ("bound_at", "released_at", "asleep_at"):
            worker[at] = None if worker[at] is None else iso(worker[at])
    return {"attempt": workload.attempt, "workers": workers}


def logs(workload: Workload, *, tail: int = 100, since: float | None = None, rank: int | None = None) -> dict[str, Any]:
    """The last lines its pods printed; `next_since` goes on from there. Raises ClusterUnreachable."""
    lines = cluster_logs.read_lines(str(workload.pk), workload.attempt, rank, tail, since) if workload.attempt else ()
    return {
        "attempt": workload.attempt,
        "next_since": lines[-1].at if lines else since,
        "lines": [{"at": iso(x.at), "seconds": x.at, "rank": x.rank, "text": x.text} for x in lines],
    }
