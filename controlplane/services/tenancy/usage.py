"""GPU usage: placement intervals cut at full hours, in exact integers.

Intervals are measured between whole seconds of the cluster's clock, so that their parts add up to the second. Each
placement remembers how far it is accounted, in the same transaction, so that running again adds nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Coalesce

from autoscaler.latency import Within
from controlplane.cluster.port import GpuUse, ServiceUse, pod_name
from controlplane.jobspec.objective import within
from controlplane.lifecycle.harvested import Part, Tenant, parts
from controlplane.lifecycle.state import RELEASED
from controlplane.models import Placement, Quota, ServiceWindow, Team, TeamSample, Usage, Workload, bulk
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.tenancy import budgets, shares
from gpushare.gpu import WHOLE
from scheduler.model.workload import ACTIVE, LEAVING, WAITING, Kind

HOUR = 3600

Key = tuple[UUID, str, int]  # workload, pool, start of the hour


def account(
    *,
    to: float,
    lease: HeldLease,
    uses: Sequence[GpuUse] = (),
    services: Sequence[ServiceUse] = (),
    budget_hours: Mapping[int, float] | None = None,
    own: Mapping[str, float] | None = None,
    places: Mapping[str, int] | None = None,
) -> int:
    """Bring the usage rows up to `to`, cluster-clock seconds, by the duty measured of each GPU since the last time.

    With it recent usage, and budgets by the GPU hours used of each. own: the part of a shared GPU's time in which a
    pod's own kernels ran, by its name, where that is told. places: the GPU on which the memory of a notebook on demand
    is, likewise, IN_HOST_MEMORY if on none. Tells how many placements that took.
    """
    duties = {(use.node, use.index): min(1.0, max(0.0, use.duty)) for use in uses}
    with transaction.atomic():
        lease.check()
        seen = _account(int(to), duties, own or {}, places or {})
        shares.note(to=float(int(to)), held=_held(seen))
        budgets.watch(at=to, used=budget_hours or {})
        _sample(to, seen)
        _windows(services)
    return len(seen)


@dataclass(frozen=True, slots=True)
class Interval:
    """What one placement holds that is not accounted yet, as a step of `account` sees it."""

    workload: UUID
    team: int
    pool: str
    milli: int
    start: int
    end: int
    duty: float  # 0..1, of its devices
    is_over: bool


def hours(start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start of the hour, seconds in it) of the interval from start to end."""
    while start < end:
        hour = start - start % HOUR
        stop = min(end, hour + HOUR)
        yield hour, stop - start
        start = stop


_COLUMNS = (
    "id", "workload_id", "pool", "node", "gpus", "milli", "state", "bound_at", "released_at", "accounted_to",
    "attempt", "rank", "own_duty", "on_gpu",
)  # fmt: skip
_OPEN = {"is_settled": False, "bound_at__isnull": False}


def _account(
    to: int, duties: Mapping[tuple[str, int], float], own: Mapping[str, float], places: Mapping[str, int]
) -> list[Interval]:
    """Account every open interval up to `to`; tell all of them."""
    rows = list(bulk.select(Placement, _COLUMNS, _OPEN, order=("id",)))
    pods = {row[0]: pod_name(str(row[1]), row[10], row[11]) for row in rows}
    known = {pk: own.get(pod) for pk, pod in pods.items()}
    harvests = _harvested(rows, known) | _on_demand(rows, known)
    whose = _whose({row[1] for row in rows})
    held: dict[Key, int] = {}
    computed: dict[Key, int] = {}
    done: list[tuple[Any, ...]] = []
    seen: list[Interval] = []
    for pk, uid, pool, node, gpus, milli, state, bound_at, released_at, accounted_to, *_ in rows:
        start = int(bound_at if accounted_to is None else accounted_to)
        is_over = state == RELEASED and released_at is not None and int(released_at) <= to
        end = int(released_at) if is_over else to
        duty = _duty(node, gpus, duties)
        seen.append(Interval(uid, whose[uid][0], pool, milli, start, end, duty, is_over))
        part = harvests.get(pk, Part(milli, 0))
        for hour, seconds in hours(start, end):
            key = (uid, pool, hour)
            held[key] = held.get(key, 0) + part.charged * seconds
            ran = part.computed * seconds if pk in harvests else int(milli * seconds * duty)
            computed[key] = computed.get(key, 0) + ran
        if is_over or end > start:
            done.append((float(max(start, end)), is_over, pk))
    _add({key: value for key, value in held.items() if value or computed[key]}, computed, whose)
    bulk.update(Placement, ("accounted_to", "is_settled"), ("id",), done, in_order=True)
    told = [
        (known[row[0]], places.get(pods[row[0]]), row[0])
        for row in rows
        if (known[row[0]], places.get(pods[row[0]])) != row[12:]
    ]
    bulk.update(Placement, ("own_duty", "on_gpu"), ("id",), told, in_order=True)
    return seen


def _on_demand(rows: Iterable[Sequence[Any]], known: Mapping[int, float | None]) -> dict[int, Part]:
    """What is charged for notebooks on demand, by id: what they got of a GPU while a cell ran, and nothing between.

    Until something tells that, their guarantee is charged like that of other shares.
    """
    found: dict[int, Part] = {}
    for row in rows:
        own = known[row[0]]
        if row[13] is not None and own is not None:
            got = int(min(1.0, max(0.0, own)) * WHOLE)
            found[row[0]] = Part(got, got)
    return found


def _harvested(rows: Iterable[Sequence[Any]], known: Mapping[int, float | None]) -> dict[int, Part]:
    """What is charged and computed on GPUs where a worker harvests and something tells what each computes, by id.

    A share is charged its guarantee whatever it does, and computed what of that it used.
    """
    devices: dict[tuple[str, int], list[Sequence[Any]]] = {}
    for row in rows:
        if len(row[4]) == 1 and row[5] < WHOLE:
            devices.setdefault((row[3], row[4][0]), []).append(row)
    wholes = {(row[3], index) for row in rows if row[5] >= WHOLE for index in row[4]}
    found: dict[int, Part] = {}
    for device, there in devices.items():
        tenants = [Tenant(row[5], known[row[0]]) for row in there]
        if all(one.guarantee for one in tenants):
            continue
        tenants += [Tenant(WHOLE, None)] if device in wholes else []
        for row, tenant, part in zip(there, tenants, parts(tenants), strict=False):
            if tenant.own is not None:
                ran = min(tenant.guarantee, int(tenant.own * WHOLE))
                found[row[0]] = Part(tenant.guarantee, ran) if tenant.guarantee else part
    return found


def _held(intervals: Iterable[Interval]) -> shares.Held:
    """The intervals that are new to the accounts, by team and pool."""
    held: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
    for one in intervals:
        if one.milli and one.end > one.start:
            held.setdefault((one.team, one.pool), []).append((one.start, one.end, one.milli))
    return held


def _duty(node: str, gpus: Sequence[int], duties: Mapping[tuple[str, int], float]) -> float:
    """The mean duty of a worker's devices; a device that does not report counts as idle."""
    return sum(duties.get((node, index), 0.0) for index in gpus) / len(gpus) if gpus else 0.0


def _add(held: Mapping[Key, int], computed: Mapping[Key, int], whose: Mapping[UUID, tuple[int, str, str]]) -> None:
    """Add to the rows of these hours, creating those that are missing."""
    names = ("team_id", "name", "user", "workload", "pool", "hour", "held", "computed")
    rows = [
        (*whose[uid], uid, pool, hour, value, computed[uid, pool, hour]) for (uid, pool, hour), value in held.items()
    ]
    bulk.insert(Usage, names, rows, added=(("workload", "pool", "hour"), ("held", "computed")))


def _whose(uids: Iterable[UUID]) -> dict[UUID, tuple[int, str, str]]:
    """Team, name and user of each workload."""
    whose: dict[UUID, tuple[int, str, str]] = {}
    for part in bulk.chunks(uids):
        rows = bulk.select(Workload, ("uid", "team_id", "name", "created_by__username"), {"uid__among": part})
        whose.update((uid, (team, name, user or "")) for uid, team, name, user in rows)
    return whose


# --- history of teams -------------------------------------------------------------------------

_SAMPLE = ("team_id", "at", "nominal", "held", "computing", "waiting")


def _sample(at: float, intervals: Iterable[Interval]) -> None:
    """One row a team: what it owns, holds and keeps busy, and how many of its workloads wait."""
    held: dict[int, int] = {}
    busy: dict[int, float] = {}
    for one in intervals:
        if not one.is_over:
            held[one.team] = held.get(one.team, 0) + one.milli
            busy[one.team] = busy.get(one.team, 0.0) + one.milli * one.duty
    nominal = dict(Quota.objects.order_by().values_list("team_id").annotate(Sum("nominal")))
    waiting = dict(bulk.count(Workload, ("team_id",), {"phase__in": WAITING}))
    rows = [
        (team, at, int(nominal.get(team, 0)), held.get(team, 0), int(busy.get(team, 0.0)), waiting.get(team, 0))
        for (team,) in bulk.select(Team, ("id",), order=("id",))
    ]
    bulk.insert(TeamSample, _SAMPLE, rows, ignore=True)


# --- services ---------------------------------------------------------------------------------


def serving() -> dict[str, Within | None]:
    """The services that hold capacity, the ones to ask metrics for, with the p95 that each promises."""
    up = {"phase__in": ACTIVE | LEAVING, "kind": Kind.INFERENCE}
    rows = bulk.select(Workload, ("uid", "spec"), up, order=("seq",))
    return {str(uid): within(spec["normalised"].get("objective")) for uid, spec in rows}


_WINDOW = (
    "workload", "start", "requests", "over", "p95_seconds", "requests_per_second", "replicas", "wanted", "asleep",
    "lent", "lent_to",
)  # fmt: skip


def _windows(services: Sequence[ServiceUse]) -> None:
    """One row for each service's window; a window is written once."""
    if not services:
        return
    counts = _replicas([UUID(use.workload) for use in services])
    rows = [
        (
            UUID(use.workload),
            use.at - use.window_seconds,
            use.requests,
            use.over_objective,
            use.p95_seconds,
            use.requests_per_second,
            *counts[use.workload],
        )
        for use in services
        if use.workload in counts
    ]
    bulk.insert(ServiceWindow, _WINDOW, rows, ignore=True)


def _replicas(uids: Sequence[UUID]) -> dict[str, tuple[int, int, int | None, int | None, dict[str, int] | None]]:
    """Of each service: replicas that serve, that are to, those on standby, the GPUs of these that are lent, and these
    by the teams that have them.

    The last three are None for one that keeps none. A query; one more if one of them does.
    """
    up = Q(placements__pod_phase="Running") & ~Q(placements__state=RELEASED)
    running = Count("placements", filter=up & Q(placements__asleep_at=None))
    asleep = Count("placements", filter=up & Q(placements__asleep_at__isnull=False))
    found = list(
        Workload.objects.filter(pk__among=uids)
        .annotate(n=running, asleep=asleep)
        .values_list("pk", "n", Coalesce(F("awake"), F("workers")), "awake", "asleep")
    )
    lenders = {str(uid) for uid, _, _, awake, _ in found if awake is not None}
    lent = _lent(lenders) if lenders else {}
    told: dict[str, tuple[int, int, int | None, int | None, dict[str, int] | None]] = {}
    for uid, n, wanted, awake, sleeping in found:
        to = lent.get(str(uid), {})
        kept = (None, None, None) if awake is None else (sleeping, sum(to.values()), to)
        told[str(uid)] = n, wanted, *kept
    return told


def _lent(lenders: Collection[str]) -> dict[str, dict[str, int]]:
    """GPUs that gangs' workers have of these services' replicas, those that are leaving included, by team."""
    gpus: dict[str, dict[str, int]] = {}
    there = Placement.objects.filter(lender__among=lenders, bound_at__isnull=False).exclude(state=RELEASED)
    for lender, devices, team in there.values_list("lender", "gpus", "workload__team_id"):
        to = gpus.setdefault(lender, {})
        to[str(team)] = to.get(str(team), 0) + len(devices)
    return gpus
