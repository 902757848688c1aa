"""Whether a service that may have no replica sleeps, and what the next request then waits."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from controlplane.models import Workload
from controlplane.queries.scheduling import coldstart, scaling
from scheduler.model.workload import ACTIVE, Kind

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Sleep:
    """after_seconds: without a request until it sleeps. cold_start_seconds: from the first request that waits until a
    replica serves, the median of the last times that it woke, before that as its first replica took; None: not known.
    times_woken: of the last times, how many that is.
    """

    is_asleep: bool
    after_seconds: float
    cold_start_seconds: float | None
    times_woken: int

    def shown(self) -> dict[str, Any]:
        """As the API answers it."""
        cold = None if self.cold_start_seconds is None else round(self.cold_start_seconds, 1)
        return {**asdict(self), "cold_start_seconds": cold}

    @property
    def sentence(self) -> str:
        """How it stands, and what a request waits."""
        idle = _span(self.after_seconds)
        cold = "a while, which is not known yet"
        if self.cold_start_seconds is not None:
            cold = f"about {_span(self.cold_start_seconds)}"
        if self.is_asleep:
            return f"asleep, as no request came for {idle}; the next one waits {cold}"
        return f"sleeps after {idle} without a request; the next one then waits {cold}"


def of_service(workload: Workload) -> Sleep | None:
    """How it sleeps; None for one that always has a replica. One to three queries."""
    after = (workload.spec.get("normalised") or {}).get("scale_to_zero_after_seconds")
    if workload.kind != Kind.INFERENCE or after is None:
        return None
    woken = coldstart.wakes([workload.pk]).get(str(workload.pk), [])[-coldstart.NEWEST :]
    cold = median(woken) if woken else scaling.starts([workload.pk]).get(str(workload.pk))
    return Sleep(workload.phase in ACTIVE and workload.workers == 0, after, cold, len(woken))


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * MINUTE else f"{seconds / MINUTE:.0f} min"
