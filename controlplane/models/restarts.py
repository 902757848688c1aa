"""What restarts of one training cost, read from its starts and those of others like it: for services and queries."""

from collections.abc import Iterable

from autoscaler.reallocate.restarts import NEWEST, Learned, Restart, learned
from controlplane.models.usage import TrainingStart
from controlplane.models.workload import Workload


def known(workload: Workload) -> Learned:
    """By its own restarts, else also by those of its team's trainings of the same kind. Two queries."""
    mine = list(TrainingStart.objects.filter(workload=workload).order_by("-attempt")[: NEWEST + 1])
    own = _restarts(mine)
    if not mine:
        return learned(own)
    alike = TrainingStart.objects.filter(kind=mine[0].kind, workload__team=workload.team_id, attempt__gt=1)
    return learned(own, _restarts(alike.exclude(workload=workload).order_by("-at", "-id")[:NEWEST]))


def _restarts(rows: Iterable[TrainingStart]) -> list[Restart]:
    """Of all attempts but first ones, which load no checkpoint."""
    return [Restart(row.leave, row.begin) for row in rows if row.attempt > 1]
