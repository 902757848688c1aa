"""How fast a training would be with other workers, and with other batches if its job file names one, by steps seen."""

from dataclasses import dataclass
from typing import Any

from autoscaler.throughput import batchcurve
from autoscaler.throughput.curve import Point, curve
from controlplane.domain import coursestate, diagnosisstate
from controlplane.jobspec import batch
from controlplane.models import Node, Placement, TrainingDiagnosis, Workload

MOST = 256  # workers of the last point
MOST_BATCHES = 12  # points of their curve


def of(workload: Workload) -> tuple[Point, ...]:
    """Its points, ascending; none before its steps were seen for twelve looks. Two queries."""
    row = TrainingDiagnosis.objects.filter(workload=workload.pk, attempt=workload.attempt).first()
    kept = coursestate.kept_of(row.course) if row is not None and row.course else None
    if row is None or kept is None or not kept.course.seen:
        return ()
    nodes = Placement.objects.filter(workload=workload, attempt=workload.attempt).values("node")
    sizes = Node.objects.filter(name__in=nodes).values_list("gpu_count", flat=True)
    of_node = max(sizes, default=1)
    counts = _counts(workload, kept.course.now.workers)
    gradients = diagnosisstate.gradients_of(row.state) if workload.batch is None else None  # else it stays the same
    return curve(kept.course.seen, kept.course.now, counts, of_node, gradients, workload.batch)


def rows(workload: Workload) -> list[dict[str, Any]]:
    """As REST answers it: speeds as multiples of the speed now."""
    return [
        {
            "workers": one.workers,
            "speed": round(one.speed, 3),
            "low": round(one.low, 3),
            "high": round(one.high, 3),
            "measured": None if one.measured is None else round(one.measured, 3),
            "goodput": None if one.goodput is None else round(one.goodput, 3),
        }
        for one in of(workload)
    ]


def _counts(workload: Workload, now: int) -> set[int]:
    """Powers of two up to twice what it has or may have, and the bounds of its job file."""
    most = min(MOST, 2 * max(now, workload.workers_max))
    found = {1 << power for power in range(most.bit_length())}
    return {count for count in found | {workload.workers_min, workload.workers_max} if 1 <= count <= most}


@dataclass(frozen=True, slots=True)
class Batch:
    """size: examples of all workers in a step now; named: as its job file says. noise: the gradient noise scale, in
    examples; None: its program does not tell it. points: ascending."""

    size: int
    named: batch.Batch
    noise: float | None
    points: tuple[batchcurve.Point, ...]

    @property
    def is_free(self) -> bool:
        """Whether its job file leaves open which batch it has."""
        return self.named.min < self.named.max


def batch_of(workload: Workload) -> Batch | None:
    """What is known of its batch; None where its job file names none. A query."""
    named = batch.stored(workload.spec)
    if named is None or workload.batch is None:
        return None
    row = TrainingDiagnosis.objects.filter(workload=workload.pk, attempt=workload.attempt).first()
    gradients = None if row is None else diagnosisstate.gradients_of(row.state)
    kept = coursestate.kept_of(row.course) if row is not None and row.course else None
    known = Batch(workload.batch, named, None if gradients is None else gradients.noise, ())
    if gradients is None or kept is None or not known.is_free:
        return known
    course = kept.course
    points = batchcurve.curve(course.seen, course.now, _sizes(named), gradients)
    return Batch(known.size, named, known.noise, points)


def batch_shown(workload: Workload) -> dict[str, Any] | None:
    """As REST answers it: goodput as a multiple of that now."""
    known = batch_of(workload)
    if known is None:
        return None
    return {
        "size": known.size,
        "named": known.named.size,
        "min": known.named.min,
        "max": known.named.max,
        "gradient_noise": None if known.noise is None else round(known.noise, 1),
        "curve": [
            {
                "examples": one.examples,
                "goodput": round(one.goodput, 3),
                "low": round(one.low, 3),
                "high": round(one.high, 3),
                "speed": round(one.speed, 3),
                "measured": None if one.measured is None else round(one.measured, 3),
            }
            for one in known.points
        ],
    }


def _sizes(named: batch.Batch) -> set[int]:
    """Its own, the bounds, and what lies between them by doubling from its own."""
    found, size = {named.min, named.size, named.max}, named.size
    while 2 * size < named.max and len(found) < MOST_BATCHES:
        size *= 2
        found.add(size)
    size = named.size
    while size // 2 > named.min and len(found) < MOST_BATCHES:
        size //= 2
        found.add(size)
    return found
