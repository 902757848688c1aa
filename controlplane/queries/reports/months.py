"""The report of a month: how services kept their objectives, by service and by team. Cluster clock, UTC."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Min, QuerySet, Sum

from autoscaler import sla
from autoscaler.latency import ANSWER
from autoscaler.sla import Standing
from autoscaler.standings import Window
from controlplane.domain.periods import Period, month_of, span
from controlplane.domain.servicedays import MINUTES
from controlplane.jobspec.quantities import iso
from controlplane.models import ServiceDay, Usage, Workload
from controlplane.queries.tenancy.platform import MAX_ROWS, TooMany
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR

# The columns of a row that count the minutes of each standing.
_MINUTES = {
    Standing.MET: "met_minutes",
    Standing.AT_RISK: "at_risk_minutes",
    Standing.VIOLATED: "violated_minutes",
    Standing.UNKNOWN: "not_known_minutes",
}
COLUMNS = (
    "team", "service", "workload", "availability_target", "p95_target_seconds", "requests", "over_objective",
    "attainment", "is_kept", "budget_left", *_MINUTES.values(), "allocated_gpu_hours",
    "worst_minute", "worst_minute_requests", "worst_minute_over_objective", "p95_of",
)  # fmt: skip
_DAY = (
    "workload", "until", "availability", "p95_seconds", "requests", "over", *MINUTES.values(), "budget_left",
     "worst_start", "worst_requests", "worst_over", "p95_of",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One service in one month. held: milli-GPU seconds; None = not known."""

    workload: UUID
    team: str
    name: str
    colour: int
    target: float
    p95_target: float | None
    requests: int
    over: int
    minutes: Mapping[Standing, int]
    budget_left: float | None
    worst: Window | None
    held: int
    p95_of: str = ANSWER  # what p95_target is measured on

    @property
    def attainment(self) -> float | None:
        """Part of the month's requests that met the objective."""
        return sla.attainment(self.requests, self.over)

    @property
    def is_kept(self) -> bool | None:
        """Whether these are as many as promised."""
        return None if self.attainment is None else self.attainment >= self.target

    @property
    def whole(self) -> int:
        """Minutes in all."""
        return sum(self.minutes.values())


@dataclass(frozen=True, slots=True)
class Total:
    """A team's services together; kept of known: those that kept their objectives, of those that had requests."""

    team: str
    colour: int
    services: int
    kept: int
    known: int
    requests: int
    over: int
    minutes: Mapping[Standing, int]
    held: int

    @property
    def attainment(self) -> float | None:
        """Part of all requests that met their service's objective."""
        return sla.attainment(self.requests, self.over)

    @property
    def whole(self) -> int:
        """Minutes in all."""
        return sum(self.minutes.values())


@dataclass(frozen=True, slots=True)
class Report:
    """A month of these teams. noted_until: up to where it is known; None: of no service."""

    month: str
    start: float
    end: float
    noted_until: float | None
    lines: tuple[Line, ...]  # by team, those that stood worst first
    totals: tuple[Total, ...]

    def worst(self, most: int) -> tuple[Line, ...]:
        """So many of the lines, those that stood worst, in their order."""
        chosen = set(sorted(range(len(self.lines)), key=lambda i: _badness(self.lines[i]))[:most])
        return tuple(line for i, line in enumerate(self.lines) if i in chosen)


def report(at: float, names: Collection[str] | None) -> Report:
    """The month that `at` lies in, of the services of these teams (None: all). Three queries. Raises TooMany."""
    start, end = span(Period.MONTH, at)
    services = _services(names)
    days = ServiceDay.objects.filter(workload__in=services.values("pk"), day__gte=int(start), day__lt=int(end))
    found: dict[UUID, list[dict[str, Any]]] = {}
    for row in days.order_by("workload", "day").values(*_DAY):
        found.setdefault(row["workload"], []).append(row)
    if len(found) > MAX_ROWS:
        raise TooMany
    held = _held(list(found), start, end)
    named = services.filter(pk__among=list(found)).order_by("team__name", "name", "seq")
    columns = named.values_list("pk", "team__name", "name", "team__colour")
    unsorted = [_line(one, found[one[0]], held.get(one[0], 0)) for one in columns]
    lines = tuple(sorted(unsorted, key=lambda line: (line.team, *_badness(line))))
    noted = max((row["until"] for rows in found.values() for row in rows), default=None)
    return Report(month_of(start), start, end, noted, lines, _totals(lines))


def known(at: float, names: Collection[str] | None) -> tuple[str, ...]:
    """The months, newest first, from the first of which something of these teams' services is noted. One query."""
    services = _services(names)
    first = ServiceDay.objects.filter(workload__in=services.values("pk")).aggregate(first=Min("day"))["first"]
    found, at = [], span(Period.MONTH, at)[0]
    while True:
        found.append(month_of(at))
        if first is None or at <= first:
            return tuple(found)
        at = span(Period.MONTH, at - 1)[0]


def teams(names: Collection[str] | None) -> list[str]:
    """Those of these teams (None: all) of which a service was ever noted, by name. One query."""
    noted = _services(names).filter(pk__in=ServiceDay.objects.order_by().values("workload"))
    return sorted(set(noted.order_by().values_list("team__name", flat=True).distinct()))


def row(line: Line) -> dict[str, Any]:
    """A line as REST and CSV have it."""
    worst = (iso(line.worst.start), line.worst.requests, line.worst.over) if line.worst else (None, None, None)
    values = (
        line.team, line.name, str(line.workload), line.target, line.p95_target, line.requests, line.over,
        _rounded(line.attainment, 6), line.is_kept, _rounded(line.budget_left, 4),
        *(line.minutes[word] for word in _MINUTES), _hours(line.held), *worst, line.p95_of,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def total_row(total: Total) -> dict[str, Any]:
    """A team's total as REST has it."""
    return {
        "team": total.team,
        "services": total.services,
        "services_kept": total.kept,
        "services_known": total.known,
        "requests": total.requests,
        "over_objective": total.over,
        "attainment": _rounded(total.attainment, 6),
        **{column: total.minutes[word] for word, column in _MINUTES.items()},
        "allocated_gpu_hours": _hours(total.held),
    }


def _badness(line: Line) -> tuple[Any, ...]:
    """What sorts the worst first: missed, long violated, long at risk; then the busiest."""
    trouble = (-line.minutes[Standing.VIOLATED], -line.minutes[Standing.AT_RISK])
    return (line.is_kept is not False, *trouble, -line.requests, line.team, line.name)


def _services(names: Collection[str] | None) -> QuerySet[Workload]:
    found = Workload.objects.filter(kind="inference")
    return found if names is None else found.filter(team__name__in=names)


def _held(uids: Collection[UUID], start: float, end: float) -> dict[UUID, int]:
    used = Usage.objects.filter(workload__among=list(uids), hour__gte=int(start), hour__lt=int(end)).order_by()
    return dict(used.values_list("workload").annotate(Sum("held")))


def _line(of: tuple[UUID, str, str, int], days: list[dict[str, Any]], held: int) -> Line:
    uid, team, name, colour = of
    last, worst = days[-1], max(days, key=lambda day: day["worst_over"])
    return Line(
        workload=uid,
        team=team,
        name=name,
        colour=colour,
        target=last["availability"],
        p95_target=last["p95_seconds"],
        requests=sum(day["requests"] for day in days),
        over=sum(day["over"] for day in days),
        minutes={word: sum(day[column] for day in days) for word, column in MINUTES.items()},
        budget_left=last["budget_left"],
        worst=Window(worst["worst_start"], worst["worst_requests"], worst["worst_over"])
        if worst["worst_start"] is not None
        else None,
        held=held,
        p95_of=last["p95_of"],
    )


def _totals(lines: Iterable[Line]) -> tuple[Total, ...]:
    by_team: dict[str, list[Line]] = {}
    for line in lines:
        by_team.setdefault(line.team, []).append(line)
    return tuple(
        Total(
            team=team,
            colour=mine[0].colour,
            services=len(mine),
            kept=sum(line.is_kept is True for line in mine),
            known=sum(line.is_kept is not None for line in mine),
            requests=sum(line.requests for line in mine),
            over=sum(line.over for line in mine),
            minutes={word: sum(line.minutes[word] for line in mine) for word in MINUTES},
            held=sum(line.held for line in mine),
        )
        for team, mine in by_team.items()
    )


def _hours(held: int) -> float:
    return round(held / MILLI_SECONDS_PER_GPU_HOUR, 3)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
