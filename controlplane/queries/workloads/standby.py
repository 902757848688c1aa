"""What a service keeps on standby, what it lends of that, and what a gang borrows."""

from dataclasses import asdict, dataclass
from typing import Any

from controlplane.models import Placement, PlacementState, Workload
from controlplane.queries.workloads.revisions import STAYING
from scheduler.model.workload import Kind

HOUR = 3600.0
DAY_HOURS = 24


@dataclass(frozen=True, slots=True)
class Standby:
    """Of a service: replicas that are to serve, those on standby now, and the GPUs of these that gangs use.

    lent_gpu_hours: all that it ever lent.
    """

    serving: int
    asleep: int
    lent: int
    lent_gpu_hours: float

    def shown(self) -> dict[str, Any]:
        """As the API answers it."""
        return {**asdict(self), "lent_gpu_hours": round(self.lent_gpu_hours, 3)}


def of_service(workload: Workload, now: float) -> Standby | None:
    """How its standby stands; None for one without. Two queries."""
    if workload.kind != Kind.INFERENCE or workload.awake is None:
        return None
    asleep = Placement.objects.filter(workload=workload.pk, state__in=STAYING, asleep_at__isnull=False).count()
    lent, hours = _lent(Placement.objects.filter(lender=str(workload.pk)).values_list(*_HOLD), now)
    return Standby(workload.awake, asleep, lent, hours)


def borrowed(workload: Workload, now: float) -> tuple[int, float]:
    """GPUs of services' sleeping replicas that it uses now, and the GPU hours of all that it ever borrowed."""
    return _lent(Placement.objects.filter(workload=workload.pk).exclude(lender="").values_list(*_HOLD), now)


def price(replicas: int, serving: int, standby: int) -> str:
    """What so much standby costs at most, shown before it is asked for; empty for none.

    replicas: the most that it may have; serving: the least.
    """
    most = min(standby, replicas - serving)
    if most <= 0:
        return ""
    gpus = "1 GPU" if most == 1 else f"{most} GPUs"
    return (
        f"Standby holds up to {gpus}, {most * DAY_HOURS} GPU hours a day. It counts against the team's quota; elastic "
        "trainings compute on these GPUs until the service needs them."
    )


_HOLD = ("gpus", "state", "bound_at", "released_at")


def _lent(rows: Any, now: float) -> tuple[int, float]:
    gpus, seconds = 0, 0.0
    for devices, state, bound_at, released_at in rows:
        if bound_at is not None:
            until = now if released_at is None else released_at
            seconds += max(0.0, until - bound_at) * len(devices)
        gpus += 0 if state == PlacementState.RELEASED else len(devices)
    return gpus, seconds / HOUR
