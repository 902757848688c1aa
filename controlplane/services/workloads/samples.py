"""What running workloads use, now and then, for the charts of their pages.

Prometheus keeps it finer and for longer; these rows are there without one, in the units of the pages, and bounded: one
a workload in five minutes, for a day unless told otherwise (services/audit/retention.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from uuid import UUID

from controlplane.cluster import devicenumbers
from controlplane.cluster.devicenumbers import Holder
from controlplane.cluster.port import GpuUse, TrainingUse, pod_name
from controlplane.lifecycle.state import BOUND
from controlplane.models import Placement, WorkloadSample, bulk
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind, Phase

PERIOD = 300.0  # s of the cluster's clock between two samples of a workload
_COLUMNS = ("workload", "at", "duty", "memory", "step_seconds")


@dataclass(frozen=True, slots=True)
class Seat:
    """One running worker's devices; is_whole: no other workload is on them."""

    workload: UUID
    kind: str
    node: str
    gpus: tuple[int, ...]
    is_whole: bool


def seats() -> tuple[Seat, ...]:
    """The workers to sample."""
    found = Placement.objects.filter(state=BOUND, pod_phase=Phase.RUNNING.value, is_settled=False)
    rows = found.order_by("id").values_list("workload_id", "workload__kind", "node", "gpus", "milli")
    return tuple(
        Seat(uid, kind, node, tuple(gpus), bool(gpus) and milli >= WHOLE * len(gpus))
        for uid, kind, node, gpus, milli in rows
    )


def sharers() -> list[str]:
    """The workloads with a worker on a GPU that is shared or lent, to ask for what each of its pods computes there."""
    parts = {**_OPEN, "milli__lt": WHOLE, "pod_phase": Phase.RUNNING.value}
    rows = Placement.objects.filter(**parts).exclude(gpus=[]).order_by("workload_id").values_list("workload_id")
    return [str(uid) for (uid,) in rows.distinct()]


def numbered(uses: Sequence[GpuUse]) -> tuple[GpuUse, ...]:
    """The same under Weft's numbers of the devices, by the workers that are on their nodes."""
    if all(use.pods is None for use in uses):
        return tuple(uses)
    return devicenumbers.numbered(uses, _holders())


_THERE = ("workload_id", "attempt", "rank", "node", "gpus", "milli")
_OPEN = {"is_settled": False, "bound_at__isnull": False, "released_at__isnull": True}


def _holders() -> list[Holder]:
    rows = bulk.select(Placement, _THERE, _OPEN, order=("id",))
    found: dict[tuple[str, str], Holder] = {}
    for uid, attempt, rank, node, gpus, milli in rows:
        is_whole = milli >= WHOLE * len(gpus)
        pod = pod_name(str(uid), attempt, rank)
        for one in [Holder(pod, node, tuple(gpus), True)] if is_whole and gpus else _for_shares(node, gpus):
            found[one.node, one.pod] = one
    return list(found.values())


def _for_shares(node: str, gpus: Iterable[int]) -> list[Holder]:
    """What holds these devices, each for all shares that lie on it."""
    return [Holder(devicenumbers.placeholder(node, gpu), node, (gpu,), False) for gpu in gpus]


def trainings(found: Iterable[Seat]) -> list[str]:
    """The trainings among them, to ask for their steps."""
    return sorted({str(seat.workload) for seat in found if seat.kind == Kind.TRAINING.value})


def note(*, at: float, found: Sequence[Seat], uses: Iterable[GpuUse], steps: Iterable[TrainingUse]) -> int:
    """Keep a sample of each of these workloads; tell how many."""
    devices = {(use.node, use.index): use for use in uses}
    pace = {step.workload: step.step_seconds for step in steps}
    duties: dict[UUID, list[float]] = {}
    memories: dict[UUID, list[int]] = {}
    for seat in found:
        for use in (devices.get((seat.node, index)) for index in seat.gpus if seat.is_whole):
            if use is not None:
                duties.setdefault(seat.workload, []).append(min(1.0, max(0.0, use.duty)))
                memories.setdefault(seat.workload, []).append(use.memory)
    rows = [
        (uid, at, _mean(duties.get(uid)), _whole(_mean(memories.get(uid))), pace.get(str(uid)))
        for uid in dict.fromkeys(seat.workload for seat in found)
    ]
    bulk.insert(WorkloadSample, _COLUMNS, rows, ignore=True)
    return len(rows)


def _mean(values: Sequence[float] | None) -> float | None:
    return round(fmean(values), 4) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
