"""How fast a training would be with more or fewer workers, by the steps that were seen: for REST, pages and the CLI."""

from typing import Any

from autoscaler.throughput.curve import Point, curve
from controlplane.domain import coursestate, diagnosisstate
from controlplane.models import Node, Placement, TrainingDiagnosis, Workload

MOST = 256  # workers of the last point


def of(workload: Workload) -> tuple[Point, ...]:
    """Its points, ascending; none before its steps were seen for twelve looks. Two queries."""
    row = TrainingDiagnosis.objects.filter(workload=workload.pk, attempt=workload.attempt).first()
    kept = coursestate.kept_of(row.course) if row is not None and row.course else None
    if row is None or kept is None or not kept.course.seen:
        return ()
    nodes = Placement.objects.filter(workload=workload, attempt=workload.attempt).values("node")
    sizes = Node.objects.filter(name__in=nodes).values_list("gpu_count", flat=True)
    of_node = max(sizes, default=1)
    counts, gradients = _counts(workload, kept.course.now.workers), diagnosisstate.gradients_of(row.state)
    return curve(kept.course.seen, kept.course.now, counts, of_node, gradients)


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
