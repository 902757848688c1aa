"""Two replays of one episode beside each other: figures per team, and how they differ."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from controlplane.simulator.replay.course import Course, Played
from gpushare.gpu import WHOLE

ALL = "all"
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one team's work (or of all).

    A wait lasts from submission to the first start, or to the episode's end for what never started; work that had
    its places when the episode began, and what was withdrawn, has none. utilisation is the GPU time in which the work
    made progress, of all GPU time there is; held counts the time without progress as well.

    requests, late_percent and p95_seconds are of the services whose traffic is known; None: of none it is. Late took
    longer than the objective, or got no answer. p95_seconds, of answered requests, is that of the service which is
    the worst against its objective; services without an objective come last.
    """

    team: str
    jobs: int
    started: int
    ended: int
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None
    preemptions: int
    moves: int
    lost_gpu_hours: float
    allocated_gpu_hours: float
    used_gpu_hours: float
    utilisation_percent: float
    requests: int | None
    late_percent: float | None
    p95_seconds: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of both replays by team, the sum of all first."""

    before: tuple[Figures, ...]
    after: tuple[Figures, ...]

    def to_dict(self) -> dict[str, Any]:
        """Rows of `before`, `after` and `difference` by team, for JSON."""
        rows = []
        for one, other in zip(self.before, self.after, strict=True):
            a, b = asdict(one), asdict(other)
            numbers = {
                name: None if a[name] is None or b[name] is None else round(b[name] - a[name], 4)
                for name in a
                if name != "team"
            }
            rows.append({"team": a.pop("team"), "before": a, "after": {n: b[n] for n in a}, "difference": numbers})
        return {"teams": rows}


def compare(before: Played, after: Played) -> Comparison:
    """The figures of two replays of the same work; quotas and nodes may differ."""
    teams = sorted({c.job.workload.team for played in (before, after) for c in played.courses})
    return Comparison(_figures(before, teams), _figures(after, teams))


def _figures(played: Played, teams: Sequence[str]) -> tuple[Figures, ...]:
    episode = played.episode
    there = max(1.0, episode.gpus * (episode.end - episode.start))
    by_team = {team: [c for c in played.courses if c.job.workload.team == team] for team in teams}
    rows = [(ALL, list(played.courses)), *by_team.items()]
    return tuple(_of(team, courses, episode.end, there) for team, courses in rows)


def _of(team: str, courses: Sequence[Course], end: float, there: float) -> Figures:
    waits = [_wait(c, end) for c in courses if not (c.job.workload.placement or c.is_withdrawn)]
    used = sum(c.used_seconds for c in courses) / WHOLE
    tallies = [c.tally for c in courses if c.tally is not None]
    requests = sum(t.requests for t in tallies)
    late = sum(t.late for t in tallies)
    return Figures(
        team=team,
        jobs=len(courses),
        started=sum(c.first_start is not None for c in courses),
        ended=sum(c.ended is not None and not c.is_withdrawn for c in courses),
        wait_p50_seconds=_quantile(waits, 0.5),
        wait_p95_seconds=_quantile(waits, 0.95),
        preemptions=sum(c.preemptions for c in courses),
        moves=sum(c.moves for c in courses),
        lost_gpu_hours=_hours(c.lost_seconds * _milli(c) for c in courses),
        allocated_gpu_hours=_hours(c.held_seconds for c in courses),
        used_gpu_hours=round(used / HOUR, 3),
        utilisation_percent=round(100 * used / there, 3),
        requests=round(requests) if tallies else None,
        late_percent=round(100 * late / requests, 4) if requests else None,
        p95_seconds=_worst(courses),
    )


def _wait(course: Course, end: float) -> float:
    started = end if course.first_start is None else course.first_start
    return max(0.0, started - min(course.job.at, course.job.workload.queued_at))


def _worst(courses: Sequence[Course]) -> float | None:
    """p95 of the service that is the worst against its objective."""
    found: list[tuple[float, float]] = []
    for course in courses:
        p95 = None if course.tally is None else course.tally.p95_seconds
        if p95 is not None and course.job.service is not None:
            objective = course.job.service.objective
            found.append((p95 / objective.seconds if objective else 0.0, p95))
    return round(max(found)[1], 4) if found else None


def _milli(course: Course) -> int:
    return course.job.workload.whole_milli


def _hours(milli_seconds: Iterable[float]) -> float:
    return round(sum(milli_seconds) / WHOLE / HOUR, 3)


def _quantile(values: Sequence[float], part: float) -> float | None:
    return None if not values else round(float(np.quantile(np.array(values), part)), 1)
