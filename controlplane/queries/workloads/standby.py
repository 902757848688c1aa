"""What a service keeps on standby, what it lends of that, and what a gang borrows."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Q

from autoscaler.settings import Settings as ScalingSettings
from controlplane.models import Placement, PlacementState, Quota, Takes, Workload
from controlplane.queries.scheduling import policies
from controlplane.queries.workloads.prices import FREE, Prices
from controlplane.queries.workloads.revisions import STAYING
from gpushare.gpu import WHOLE
from scheduler.model.mention import counted
from scheduler.model.workload import ON_DEVICE, Kind, Weights

HOUR = 3600.0
WHERE = {
    Weights.DEVICE: "device",
    Weights.FIXED: "device",
    Weights.TO_HOST: "to host",
    Weights.HOST: "host",
    Weights.TO_DEVICE: "to device",
}  # as answers and pages say it
DAY_HOURS = 24


@dataclass(frozen=True, slots=True)
class Standby:
    """Of a service: replicas that are to serve, those on standby now, and the GPUs of these that gangs use.

    on_host: of those on standby, how many have their weights in host memory, or on their way. lent_gpu_hours: all that
    it ever lent, and lent_cost what these cost at the pools' present prices: computed by others, paid for by it.
    wake_seconds: until one answers with its weights on its GPU; host_wake_seconds: of the others.
    """

    serving: int
    asleep: int
    on_host: int
    lent: int
    lent_gpu_hours: float
    lent_cost: Decimal
    wake_seconds: float
    host_wake_seconds: float

    def shown(self) -> dict[str, Any]:
        """As the API answers it."""
        rounded = {"lent_gpu_hours": round(self.lent_gpu_hours, 3), "lent_cost": round(float(self.lent_cost), 2)}
        return {**asdict(self), **rounded}


def of_service(workload: Workload, now: float) -> Standby | None:
    """How its standby stands; None for one without. Four queries."""
    if workload.kind != Kind.INFERENCE or workload.awake is None:
        return None
    asleep = Placement.objects.filter(workload=workload.pk, state__in=STAYING, asleep_at__isnull=False)
    weights = list(asleep.values_list("weights", flat=True))
    rows = list(Placement.objects.filter(lender=str(workload.pk)).values_list(*_HOLD, "pool"))
    holds = [(pool, *_lent([hold], now)) for *hold, pool in rows]
    lent, hours, prices = sum(gpus for _, gpus, _ in holds), sum((part for *_, part in holds), 0.0), Prices()
    cost = sum((prices.of(pool) * Decimal(part) for pool, _, part in holds), FREE)
    settings = policies.scaling()
    slow = sum(one not in ON_DEVICE for one in weights)
    wakes = settings.wake_seconds, settings.host_wake_seconds
    return Standby(workload.awake, len(weights), slow, lent, hours, cost, *wakes)


def told(workers: Iterable[dict[str, Any]]) -> None:
    """Say of each worker where its weights are and in how many seconds it answers; of those not on standby nothing.

    One query, if any of them is on standby or has weights elsewhere.
    """
    settings: ScalingSettings | None = None
    for worker in workers:
        weights, is_asleep = worker["weights"], worker["asleep_at"] is not None
        worker["weights"], worker["wake_seconds"] = None, None
        if is_asleep or weights not in ON_DEVICE:
            settings = settings or policies.scaling()
            is_near = weights in ON_DEVICE
            worker["weights"] = WHERE[Weights(weights)]
            worker["wake_seconds"] = settings.wake_seconds if is_near else settings.host_wake_seconds


def borrowed(workload: Workload, now: float) -> tuple[int, float]:
    """GPUs of services' sleeping replicas that it uses now, and the GPU hours of all that it ever borrowed."""
    return _lent(Placement.objects.filter(workload=workload.pk).exclude(lender="").values_list(*_HOLD), now)


def may_hold(team: str) -> int | None:
    """GPUs that a team's quotas let it hold at most where GPUs take shares; None: no limit. One query."""
    there = Q(pool__nodes__takes_shares=True, pool__nodes__gpu_count__gt=0) & ~Q(pool__takes=Takes.WHOLE)
    quotas = Quota.objects.filter(there, team__name=team).distinct()
    most = [
        None if limit is None else nominal + limit
        for _, nominal, limit in quotas.values_list("pk", "nominal", "borrowing_limit")
    ]
    known = [one for one in most if one is not None]
    return None if not most or len(known) < len(most) else sum(known) // WHOLE


def price(replicas: int, serving: int, standby: int, bound: int | None = None) -> str:
    """What so much standby costs at most, shown before it is asked for; empty for none.

    replicas: the most that it may have; serving: the least; bound: GPUs that its team may hold at most (`may_hold`).
    """
    most = min(standby, replicas - serving)
    if most <= 0:
        return ""
    kept = most if bound is None else min(most, bound - serving)
    limit = f"the team's quotas let it hold {counted(bound or 0, 'GPU')} at most"
    if kept <= 0:
        return f"No GPU is kept on standby: {limit}."
    fewer = f", not {most}: {limit}" if kept < most else ""
    return (
        f"Standby holds up to {counted(kept, 'GPU')}, {kept * DAY_HOURS} GPU hours a day{fewer}. It counts against the "
        "team's quota; elastic trainings compute on these GPUs until the service needs them."
    )


def replicas_of(workload: Workload, asked: int | str | None) -> int:
    """How many replicas would stand by, as a job file says it; None: as many as now."""
    if isinstance(asked, str):
        return int(workload.workers_max - workload.workers_min)
    return int(workload.standby) if asked is None else asked


def price_of(workload: Workload, standby: int) -> str:
    """The price of so much standby for a service that is there. One query, or none."""
    bound = may_hold(workload.team.name) if standby else None
    return price(workload.workers_max, workload.workers_min, standby, bound)


_HOLD = ("gpus", "state", "bound_at", "released_at")


def _lent(rows: Any, now: float) -> tuple[int, float]:
    gpus, seconds = 0, 0.0
    for devices, state, bound_at, released_at in rows:
        if bound_at is not None:
            until = now if released_at is None else released_at
            seconds += max(0.0, until - bound_at) * len(devices)
        gpus += 0 if state == PlacementState.RELEASED else len(devices)
    return gpus, seconds / HOUR
