"""What the scheduler learns from workloads that ended by themselves."""

from dataclasses import replace
from typing import Any

from controlplane.models import Team, Workload, bulk
from controlplane.queries.scheduling import forecasts
from gpushare.gpu import WHOLE
from scheduler.model.history import History, Run, learn
from scheduler.model.workload import Kind, Phase

NEWEST = 1000  # workloads looked at: enough for the groups of a busy team, and a few milliseconds
_COLUMNS = (
    "kind", "team_id", "gpus", "share_guarantee", "workers", "attained", "first_started_at", "ended_at",
    "expected_seconds",
)  # fmt: skip


def learnt() -> History:
    """Running times of the newest that succeeded, by kind, size and team; how far off waits were. Three statements."""
    rows = bulk.select(Workload, _COLUMNS, {"phase": Phase.SUCCEEDED}, order=("-seq",), limit=NEWEST)
    teams = dict(bulk.select(Team, ("id", "name"))) if rows else {}
    known = learn(run for row in rows if (run := _run(row, teams)) is not None)
    return replace(known, mistakes=forecasts.learnt())


def _run(row: tuple[Any, ...], teams: dict[int, str]) -> Run | None:
    kind, team, gpus, guarantee, workers, attained, started_at, ended_at, expected = row
    milli = (guarantee or gpus * WHOLE) * workers
    if started_at is None or ended_at is None:
        return None
    # All attempts together; without GPUs nothing is attained, and the breaks between attempts count as well.
    seconds = attained / milli if milli and attained else max(0.0, ended_at - started_at)
    return Run(Kind(kind), teams[team], milli, seconds, expected)
