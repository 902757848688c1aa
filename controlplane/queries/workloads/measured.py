"""What one workload used: samples for its charts, and what it cost. Cluster-clock seconds, milli-GPU seconds."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db.models import OuterRef, Subquery, Sum

from controlplane.models import Usage, Workload, WorkloadSample
from controlplane.queries.workloads.prices import FREE, NOTHING, Prices, Spent
from gpushare.gpu import WHOLE
from scheduler.model.workload import Phase

MAX = 288  # samples: a day of one each five minutes


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment; None = not known. duty 0..1, memory MiB on each GPU."""

    at: float
    duty: float | None
    memory: int | None
    step_seconds: float | None


@dataclass(frozen=True, slots=True)
class Share:
    """What was held in one node pool, and the price of a GPU-hour there as it is now."""

    pool: str
    price: Decimal
    spent: Spent


@dataclass(frozen=True, slots=True)
class Cost:
    """All pools together, what of it did not compute, and an hour's price at the present size (None: holds nothing)."""

    shares: tuple[Share, ...]
    whole: Spent
    wasted: Decimal
    hourly: Decimal | None


def samples(workload: Workload, most: int = MAX) -> tuple[Sample, ...]:
    """The newest samples, oldest first. One query."""
    found = WorkloadSample.objects.filter(workload=workload.pk).order_by("-at")
    rows = found.values_list("at", "duty", "memory", "step_seconds")[:most]
    return tuple(Sample(*row) for row in rows)[::-1]


def utilisation(found: Collection[Workload]) -> dict[UUID, float]:
    """How much of the time the GPUs of running workloads compute, by their newest samples. One query."""
    running = {w.pk: w for w in found if w.phase == Phase.RUNNING.value}
    newest = WorkloadSample.objects.filter(workload=OuterRef("workload")).order_by("-at").values("at")[:1]
    rows = WorkloadSample.objects.filter(workload__among=list(running), at=Subquery(newest))
    return {
        pk: duty
        for pk, at, duty in rows.values_list("workload", "at", "duty")
        if duty is not None and at >= (running[pk].started_at or 0.0)
    }


def shares(workload: Workload, prices: Prices) -> tuple[Share, ...]:
    """What it has held so far in each pool, all attempts together. One query."""
    used = Usage.objects.filter(workload=workload.pk).order_by("pool").values_list("pool")
    return tuple(
        Share(pool, prices.of(pool), prices.spent(pool, held, computed))
        for pool, held, computed in used.annotate(Sum("held"), Sum("computed"))
    )


def cost(workload: Workload) -> Cost:
    """What it has held so far, at the pools' present prices. Three queries."""
    prices = Prices()
    found = shares(workload, prices)
    wasted = sum((prices.spent(one.pool, one.spent.idle, 0).cost for one in found), FREE)
    live = workload.placements.filter(attempt=workload.attempt, bound_at__isnull=False).exclude(state="Released")
    now = list(live.order_by().values_list("pool").annotate(milli=Sum("milli")))
    hourly = sum((prices.of(pool) * milli / WHOLE for pool, milli in now), FREE) if now else None
    return Cost(found, sum((one.spent for one in found), NOTHING), wasted, hourly)
