"""What a service's objective costs, or another one would: GPU hours a day at the load of the last day."""

from dataclasses import dataclass
from typing import Any

from autoscaler.latency import Within
from autoscaler.law import AVAILABILITY, Terms
from autoscaler.price import Price, price
from controlplane.jobspec.objective import within as promised
from controlplane.models import ServiceWindow, Workload
from controlplane.queries.reports import sla
from controlplane.queries.scheduling import policies, scaling
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind

DAY = 86_400.0  # s
HOURS = 24.0


@dataclass(frozen=True, slots=True)
class Costs:
    """A latency, and what keeping it takes; price None: nothing is known of the requests yet."""

    within: Within
    price: Price | None
    milli: int  # milli-GPU of one replica

    @property
    def gpu_hours(self) -> float | None:
        """In a day."""
        return None if self.price is None else self.price.mean * HOURS * self.milli / WHOLE


def costs(
    w: Workload, at: float, asked: Within | None = None, standby: int | None = None
) -> tuple[Costs | None, Costs | None]:
    """What its objective costs, and what this latency would with so many on standby (None: as now). Five queries.

    None where there is neither.
    """
    if w.kind != Kind.INFERENCE.value:
        return None, None
    objective = sla.objective(w.spec)
    now = promised(objective)
    state = scaling.remembered([w.pk]).get(str(w.pk))
    rates = _rates(w, at)
    settings = policies.scaling()
    availability = objective.get("availability", AVAILABILITY)
    start = scaling.starts([w.pk]).get(str(w.pk)) or settings.start_seconds

    def of(latency: Within | None, standby: int) -> Costs | None:
        if latency is None:
            return None
        constants = settings.constants(has_standby=standby > 0)
        terms = Terms(latency.seconds, start, constants, availability, latency.of)
        found = price(state.learned, rates, terms, w.workers_min, w.workers_max, standby) if state else None
        return Costs(latency, found, w.share_guarantee or w.gpus * WHOLE)

    return of(now, w.standby), of(asked, w.standby if standby is None else standby)


def row(of: Costs | None) -> dict[str, Any] | None:
    """As REST has it."""
    if of is None:
        return None
    known = of.price
    return {
        "p95_seconds": of.within.seconds,
        "p95_of": of.within.of,
        "gpu_hours_a_day": None if of.gpu_hours is None else round(of.gpu_hours, 2),
        "replicas_mean": None if known is None else round(known.mean, 2),
        "replicas_most": None if known is None else known.most,
        "short_part": None if known is None else round(known.short, 4),
    }


def _rates(w: Workload, at: float) -> list[float]:
    """Requests a second in each minute of the last day that was measured, oldest first."""
    mine = ServiceWindow.objects.filter(workload=w.pk, start__gte=at - DAY, requests_per_second__isnull=False)
    return [rate for rate in mine.order_by("start").values_list("requests_per_second", flat=True) if rate is not None]
