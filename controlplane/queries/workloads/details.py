"""One workload closely: decisions, ETA, measurements, pods, allocations, cost. No rights are checked here."""

from collections.abc import Collection, Mapping
from math import isinf
from typing import Any

from django.conf import settings
from django.db.models import Max, Q, QuerySet

from controlplane.cluster.port import pod_name
from controlplane.domain import addresses
from controlplane.jobspec.podsets import role_of
from controlplane.jobspec.quantities import iso
from controlplane.models import Cycle, Event, Gpu, Placement, PlacementState, ServiceWindow, Workload
from controlplane.queries.cells import views
from controlplane.queries.rounds import kept
from controlplane.queries.scheduling import forecasts, policies, snapshot
from controlplane.queries.scheduling.learning import learnt
from controlplane.queries.workloads import limits, measured, scaler, serving, sleeping, standby, whatif
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR, Prices
from controlplane.queries.workloads.workloads import event_row
from scheduler.model.workload import ENDED, Phase
from scheduler.predict.run_times import Spread, expected_end
from scheduler.state.memo import Memo

LATEST_CHANGES = 20


def decisions(workload: Workload) -> QuerySet[Event]:
    """What rounds of the scheduler and of the autoscaler decided about it; ordered by `id`."""
    return Event.objects.filter(workload=workload.pk, cycle__isnull=False)


def decision_rows(events: list[Event]) -> list[dict[str, Any]]:
    """These decisions, each with the round that made it (null once the round is not kept). One query."""
    made = {event.cycle for event in events if event.cycle is not None}
    found = Cycle.objects.filter(pk__among=made).annotate(is_replayable=Q(input__isnull=False))
    rounds = {row["pk"]: row for row in found.values("pk", *_ROUND)}
    return [{**event_row(event), "round": _round(rounds.get(event.cycle or 0))} for event in events]


def eta(workload: Workload) -> dict[str, Any]:
    """When it is expected to start and to end, 8 in 10 from low to high; null where it cannot be predicted.

    What waits ends after its start and its running time; their ends are added, so that interval is a wide one.
    """
    known: dict[str, Any] = {"uid": str(workload.pk), "phase": workload.phase, "expected_start": None}
    known |= {"expected_end": None, "basis": "none", "as_of": None}
    if workload.phase in ENDED:
        return known
    if kept.is_large():
        one, at, history = next(iter(snapshot.workloads_of([workload.pk])), None), snapshot.observed_at(), learnt()
        start = whatif.told_start(str(workload.pk)) if workload.phase == Phase.QUEUED else None
        known["as_of"] = forecasts.worked_out(workload.pk) if workload.phase == Phase.QUEUED else iso(at)
    else:
        world = snapshot.full(view=views.named(workload.cell))
        one, at, history = world.workloads.get(str(workload.pk)), world.at, world.history
        start = whatif.expected(world, one.id, Memo()) if one and workload.phase == Phase.QUEUED else None
        known["as_of"] = iso(at)
    if one is None:
        return known
    end = expected_end(one, at, history, policies.scheduling())
    if isinf(end.high) or (start is None and workload.started_at is None):
        return known | {"expected_start": start}
    if start is not None:
        begun = start["cluster_seconds"]
        end = Spread(*(begun[name] + getattr(end, name) - at for name in ("low", "median", "high")))
    basis = "expected_duration" if one.expected_seconds is not None else "history" if history.runs else "default"
    return known | {"expected_start": start, "expected_end": forecasts.shown(end), "basis": basis}


def metrics(workload: Workload, minutes: int, now: float, visible: Collection[str] | None = ()) -> dict[str, Any]:
    """What its GPUs do now, and of a service each minute of the last ones. Two queries, three of one that lends; null
    is not known. visible: teams that are named (None: all) where their trainings have lent GPUs.
    """
    live = Placement.objects.filter(workload=workload.pk, attempt=workload.attempt)
    live = live.filter(state__in=(PlacementState.BOUND, PlacementState.LEAVING)).order_by("rank")
    held = [(rank, node, index) for rank, node, gpus in live.values_list("rank", "node", "gpus") for index in gpus]
    devices = Gpu.objects.filter(node__name__among={node for _, node, _ in held})
    use = {(node, index): rest for node, index, *rest in devices.values_list(*_GPU)}
    gpus = [
        {"rank": rank, "node": node, "index": index, "duty": duty, "memory_used_mib": memory}
        for rank, node, index in held
        for duty, memory in [use.get((node, index), (None, None))]
    ]
    windows = ServiceWindow.objects.filter(workload=workload.pk, start__gte=now - 60 * minutes).order_by("start")
    shown = [{"at": iso(start), **row} for start, row in ((w.pop("start"), w) for w in windows.values(*_WINDOW))]
    to = serving.borrowers([row["lent_to"] for row in shown], visible)
    for i, row in enumerate(shown):
        row["lent_to"] = row["lent_to"] and [{"team": one.name or None, "gpus": n} for one in to if (n := one.gpus[i])]
    return {"at": iso(now), "gpus": gpus, "windows": shown}


def pods(workload: Workload) -> list[dict[str, Any]]:
    """The pods of the present attempt by rank, as last observed; `phase` is empty for one not seen yet."""
    namespace = addresses.namespace(workload.team.name, settings.NAMESPACE_PREFIX)
    seats = Placement.objects.filter(workload=workload.pk, attempt=workload.attempt).order_by("rank")
    found = []
    for rank, node, state, phase in seats.values_list("rank", "node", "state", "pod_phase"):
        role, index = role_of(workload.roles, rank)
        name = pod_name(str(workload.pk), workload.attempt, rank)
        row = {"name": name, "namespace": namespace, "rank": rank, "role": role, "index": index}
        found.append({**row, "node": node, "state": state, "phase": phase})
    return found


def allocations(workload: Workload) -> QuerySet[Placement]:
    """All that it ever held or was promised, of all attempts; ordered by `id`."""
    return Placement.objects.filter(workload=workload.pk)


def allocation_row(seat: Placement, roles: list[Any], now: float) -> dict[str, Any]:
    """One hold: from when to when, on what, and the milli-GPU seconds of it so far."""
    role, index = role_of(roles, seat.rank)
    same = ("attempt", "rank", "node", "pool", "gpus", "milli", "state")
    until = now if seat.released_at is None else seat.released_at
    seconds = max(0.0, until - seat.bound_at) if seat.bound_at is not None else 0.0
    times = {name: None if (at := getattr(seat, name)) is None else iso(at) for name in ("bound_at", "released_at")}
    shown = {name: getattr(seat, name) for name in same}
    return {**shown, "role": role, "index": index, **times, "milli_seconds": round(seat.milli * seconds)}


def cost(workload: Workload) -> dict[str, Any]:
    """The GPU hours of all attempts and what they cost at the pools' present prices, as accounted so far."""
    rows = [_priced(share) for share in measured.shares(workload, Prices())]
    until = Placement.objects.filter(workload=workload.pk).aggregate(last=Max("accounted_to"))["last"]
    whole = {
        name: round(sum((row[name] for row in rows), 0.0), 3) for name in ("allocated_gpu_hours", "computed_gpu_hours")
    }
    return {
        "uid": str(workload.pk),
        "accounted_until": None if until is None else iso(until),
        **whole,
        "idle_gpu_hours": max(0.0, round(whole["allocated_gpu_hours"] - whole["computed_gpu_hours"], 3)),
        "cost": round(sum((row["cost"] for row in rows), 0.0), 2),
        "pools": rows,
    }


def autoscaling(workload: Workload, now: float, visible: Collection[str] | None = ()) -> dict[str, Any]:
    """How many replicas a service may have, has and should have, its standby, whether it sleeps, and newest changes;
    and what gave GPUs to it, named where it is of a visible team (None: all are).

    Three queries; one more for a service that Kubernetes scales, two more for one with standby, one to three for one
    that may have no replica, three for one whose limit may be raised.
    """
    changes = Event.objects.filter(workload=workload.pk, kind="Scaled").order_by("-id")[:LATEST_CHANGES]
    up = Placement.objects.filter(workload=workload.pk, attempt=workload.attempt, pod_phase="Running")
    there = list(up.exclude(state=PlacementState.RELEASED).values_list("node", "gpus"))
    return {
        "min": workload.workers_min,
        "max": workload.workers_max,
        "wanted": workload.workers,
        "running": len(there),
        "on_gpus": len({(node, gpu) for node, gpus in there for gpu in gpus}),
        "on_nodes": len({node for node, _ in there}),
        "sleep": None if (sleep := sleeping.of_service(workload)) is None else sleep.shown(),
        "native": None if (native := scaler.of_service(workload)) is None else native.shown(),
        "standby": None if (kept := standby.of_service(workload, now)) is None else kept.shown(),
        "raised_limit": None if (limit := limits.of_service(workload)) is None else limit.shown(),
        "changes": [
            {
                "at": iso(one.cluster_at),
                "before": one.data.get("before"),
                "after": one.data.get("after"),
                "message": one.message,
            }
            for one in changes
        ],
        "taken": [one.shown() for one in serving.taken(workload.pk, LATEST_CHANGES, visible)],
    }


_ROUND = ("loop", "policy", "digest", "took_ms", "is_replayable")
_GPU = ("node__name", "index", "duty", "memory_used")
_WINDOW = (
    "start", "requests", "over", "p95_seconds", "requests_per_second", "replicas", "wanted", "asleep", "lent",
    "lent_to",
)  # fmt: skip


def _round(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {"number": row["pk"], **{name: row[name] for name in _ROUND}}


def _priced(share: measured.Share) -> dict[str, Any]:
    spent = share.spent
    return {
        "pool": share.pool,
        "price_per_gpu_hour": float(share.price),
        "allocated_gpu_hours": round(spent.held / MILLI_SECONDS_PER_GPU_HOUR, 3),
        "computed_gpu_hours": round(spent.computed / MILLI_SECONDS_PER_GPU_HOUR, 3),
        "cost": round(float(spent.cost), 2),
    }
