"""Who used what: placement intervals cut at full hours, in exact integers.

Intervals are measured between whole seconds of the cluster's clock, so that their parts add up to the second. Each
placement remembers how far it is accounted, in the same transaction, so that running again adds nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q, Sum

from controlplane.cluster.port import ServiceUse
from controlplane.models import Gpu, Placement, Quota, ServiceWindow, Team, TeamSample, Usage, Workload, bulk
from controlplane.services.leases import HeldLease
from controlplane.services.rows import RELEASED
from scheduler.workload import ACTIVE, LEAVING, WAITING, Kind

HOUR = 3600

Key = tuple[UUID, str, int]  # workload, pool, start of the hour


def account(*, to: float, lease: HeldLease, services: Sequence[ServiceUse] = ()) -> int:
    """Bring the usage rows up to `to`, cluster-clock seconds; tell how many placements that took."""
    with transaction.atomic():
        lease.check()
        duties = _duties()
        count = _account(int(to), duties)
        _sample(to, duties)
        _windows(services)
    return count


def hours(start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start of the hour, seconds in it) of the interval from start to end."""
    while start < end:
        hour = start - start % HOUR
        stop = min(end, hour + HOUR)
        yield hour, stop - start
        start = stop


def _account(to: int, duties: Mapping[tuple[str, int], float]) -> int:
    open_rows = Placement.objects.filter(is_settled=False, bound_at__isnull=False).order_by("id")
    held: dict[Key, int] = {}
    computed: dict[Key, int] = {}
    done: list[tuple[Any, ...]] = []
    columns = ("id", "workload_id", "pool", "node", "gpus", "milli", "state", "bound_at", "released_at", "accounted_to")
    for pk, uid, pool, node, gpus, milli, state, bound_at, released_at, accounted_to in open_rows.values_list(*columns):
        start = int(bound_at if accounted_to is None else accounted_to)
        is_over = state == RELEASED and released_at is not None and int(released_at) <= to
        end = int(released_at) if is_over else to
        duty = _duty(node, gpus, duties)
        for hour, seconds in hours(start, end):
            key = (uid, pool, hour)
            held[key] = held.get(key, 0) + milli * seconds
            computed[key] = computed.get(key, 0) + int(milli * seconds * duty)
        if is_over or end > start:
            done.append((float(max(start, end)), is_over, pk))
    _add({key: value for key, value in held.items() if value}, computed)
    bulk.update(Placement, ("accounted_to", "is_settled"), ("id",), done)
    return len(done)


def _duty(node: str, gpus: Sequence[int], duties: Mapping[tuple[str, int], float]) -> float:
    """The mean duty of a worker's devices; a device that does not report counts as idle."""
    return sum(duties.get((node, index), 0.0) for index in gpus) / len(gpus) if gpus else 0.0


def _duties() -> dict[tuple[str, int], float]:
    known = Gpu.objects.filter(duty__isnull=False).values_list("node__name", "index", "duty")
    return {(node, index): min(1.0, max(0.0, duty or 0.0)) for node, index, duty in known}


def _add(held: Mapping[Key, int], computed: Mapping[Key, int]) -> None:
    """Add to the rows of these hours, creating those that are missing."""
    if not held:
        return
    whose = _whose({uid for uid, _, _ in held})
    rows = [
        (*whose[uid], uid, pool, hour, value, computed[uid, pool, hour]) for (uid, pool, hour), value in held.items()
    ]
    names = ("team_id", "name", "user", "workload", "pool", "hour", "held", "computed")
    table = Usage._meta.db_table
    again = (
        f'ON CONFLICT ("workload", "pool", "hour") DO UPDATE SET "held" = "{table}"."held" + excluded."held", '
        f'"computed" = "{table}"."computed" + excluded."computed"'
    )
    bulk.insert(Usage, names, rows, again)


def _whose(uids: Iterable[UUID]) -> dict[UUID, tuple[int, str, str]]:
    whose: dict[UUID, tuple[int, str, str]] = {}
    for part in bulk.chunks(uids):
        rows = Workload.objects.filter(pk__in=part).values_list("pk", "team_id", "name", "created_by__username")
        whose.update((pk, (team, name, user or "")) for pk, team, name, user in rows)
    return whose


# --- history of teams -------------------------------------------------------------------------


def _sample(at: float, duties: Mapping[tuple[str, int], float]) -> None:
    """One row a team: what it owns, holds and keeps busy, and how many of its workloads wait."""
    teams = list(Team.objects.order_by("id").values_list("id", flat=True))
    nominal = dict(Quota.objects.order_by().values_list("team").annotate(total=Sum("nominal")))
    live = Placement.objects.filter(is_settled=False, bound_at__isnull=False).exclude(state=RELEASED)
    held: dict[int, int] = {}
    busy: dict[int, float] = {}
    for team, node, gpus, milli in live.values_list("workload__team_id", "node", "gpus", "milli"):
        held[team] = held.get(team, 0) + milli
        busy[team] = busy.get(team, 0.0) + milli * _duty(node, gpus, duties)
    phases = [phase.value for phase in WAITING]
    waiting = dict(Workload.objects.filter(phase__in=phases).order_by().values_list("team").annotate(n=Count("pk")))
    TeamSample.objects.bulk_create(
        [
            TeamSample(
                team_id=team,
                at=at,
                nominal=nominal.get(team, 0),
                held=held.get(team, 0),
                computing=int(busy.get(team, 0.0)),
                waiting=waiting.get(team, 0),
            )
            for team in teams
        ],
        ignore_conflicts=True,
    )


# --- services ---------------------------------------------------------------------------------


def serving() -> list[str]:
    """Ids of the services that hold capacity: the ones to ask metrics for."""
    phases = [phase.value for phase in (*ACTIVE, *LEAVING)]
    rows = Workload.objects.filter(kind=Kind.INFERENCE.value, phase__in=phases).order_by("seq")
    return [str(uid) for uid in rows.values_list("pk", flat=True)]


def _windows(services: Sequence[ServiceUse]) -> None:
    """One row for each service's window; a window is written once."""
    if not services:
        return
    uids = [UUID(use.workload) for use in services]
    running = Count("placements", filter=Q(placements__pod_phase="Running") & ~Q(placements__state=RELEASED))
    counts = {
        str(uid): (n, wanted)
        for uid, n, wanted in Workload.objects.filter(pk__in=uids)
        .annotate(n=running)
        .values_list("pk", "n", F("workers"))
    }
    ServiceWindow.objects.bulk_create(
        [
            ServiceWindow(
                workload=UUID(use.workload),
                start=use.at - use.window_seconds,
                requests=use.requests,
                over=use.over_objective,
                p95_seconds=use.p95_seconds,
                requests_per_second=use.requests_per_second,
                replicas=counts[use.workload][0],
                wanted=counts[use.workload][1],
            )
            for use in services
            if use.workload in counts
        ],
        ignore_conflicts=True,
    )
