"""Reports: GPU hours and what they cost, and how services kept their objectives. milli-GPU seconds, cluster clock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import F, Sum

from autoscaler.latency import ANSWER
from controlplane.domain.periods import Period, span
from controlplane.jobspec.quantities import iso
from controlplane.models import ServiceWindow, Workload
from controlplane.queries.accounts import access
from controlplane.queries.tenancy.platform import MAX_ROWS, TooMany, is_by_team_alone, scope
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR, NOTHING, Prices, Spent, used
from scheduler.model.workload import Kind

DAY = 86_400
HOUR = 3600
LONGEST = 366 * DAY  # s: what one report may span
DIMENSIONS = {"team": "team__name", "user": "user", "pool": "pool"}
CENT = Decimal("0.01")
USAGE_COLUMNS = ("allocated_gpu_hours", "computed_gpu_hours", "idle_gpu_hours", "cost")
SLO_COLUMNS = (
    "team", "service", "workload", "availability_target", "p95_target_seconds", "requests", "over_objective",
    "attainment", "budget_left", "is_kept", "p95_of",
)  # fmt: skip


class Step(StrEnum):
    """How finely a report is divided; weeks begin on Monday, months are those of the calendar, UTC."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Line:
    """What one combination of the dimensions used in one step; is_priced: the reader may know what it cost."""

    start: float
    keys: tuple[str, ...]
    colour: int
    spent: Spent
    is_priced: bool = True

    @property
    def cost(self) -> Decimal | None:
        """At the pools' present prices; None where it is another team's."""
        return self.spent.cost if self.is_priced else None


@dataclass(frozen=True, slots=True)
class Worked:
    """What one workload used."""

    workload: UUID | None
    team: str
    name: str
    user: str
    spent: Spent


def usage_for(
    user: access.Person, since: float, until: float, *, group_by: Sequence[str], step: Step
) -> tuple[Line, ...]:
    """What this user may know of [since, until): on every page and in every file alike. Raises TooMany.

    GPU hours by team are for all users. Their cost and the pools used, only people of the team or of one above
    it know, and platform admins.
    """
    seen = scope(user)
    if not is_by_team_alone(group_by):
        return usage(since, until, group_by=group_by, step=step, names=seen)
    lines = usage(since, until, group_by=group_by, step=step, names=None)
    return lines if seen is None else tuple(replace(line, is_priced=line.keys[0] in seen) for line in lines)


def usage(
    since: float, until: float, *, group_by: Sequence[str], step: Step, names: Collection[str] | None
) -> tuple[Line, ...]:
    """What the teams in names (None: all) used in the hours that begin in [since, until). Two queries. Raises TooMany.

    Rows are those of `account`: whole hours of the cluster's clock, the running one included.
    """
    found = used(since, until, names)
    columns = [DIMENSIONS[name] for name in group_by]
    extra = ["team__colour"] if "team" in group_by else []
    if step is not Step.ALL:
        found = found.annotate(day=F("hour") - F("hour") % DAY)
        extra = ["day", *extra]
    asked = list(dict.fromkeys([*columns, *extra, "pool"]))
    summed = found.order_by().values(*asked).annotate(h=Sum("held"), c=Sum("computed"))
    rows = list(summed[: MAX_ROWS + 1])
    if len(rows) > MAX_ROWS:
        raise TooMany
    return _folded(rows, columns, step, since)


def _folded(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], step: Step, since: float) -> tuple[Line, ...]:
    """Days to weeks or months, and pools to money."""
    prices = Prices()
    sums: dict[tuple[float, tuple[str, ...], int], Spent] = {}
    for row in rows:
        start = since if step is Step.ALL else span(Period(step.value), row["day"])[0]
        key = (start, tuple(str(row[name]) for name in columns), int(row.get("team__colour") or 0))
        sums[key] = sums.get(key, NOTHING) + prices.spent(row["pool"], row["h"], row["c"])
    lines = [Line(*key, spent) for key, spent in sums.items()]
    return tuple(sorted(lines, key=lambda line: (line.start, -line.spent.held, line.keys)))


def totals(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines of each combination added up over all steps, most held first."""
    sums: dict[tuple[tuple[str, ...], int, bool], Spent] = {}
    for line in lines:
        key = line.keys, line.colour, line.is_priced
        sums[key] = sums.get(key, NOTHING) + line.spent
    start = min((line.start for line in lines), default=0.0)
    added = [Line(start, keys, colour, spent, is_priced) for (keys, colour, is_priced), spent in sums.items()]
    return tuple(sorted(added, key=lambda line: (-line.spent.held, line.keys)))


def by_workload(since: float, until: float, names: Collection[str] | None, limit: int) -> tuple[Worked, ...]:
    """The workloads of these teams (None: all) that held most in [since, until). Two queries."""
    prices = Prices()
    keys = ("workload", "team__name", "name", "user")
    sums: dict[tuple[UUID | None, str, str, str], Spent] = {}
    summed = used(since, until, names).order_by().values_list(*keys, "pool").annotate(h=Sum("held"), c=Sum("computed"))
    for workload, team, name, user, pool, held, computed in summed:
        key = (workload, team, name, user)
        sums[key] = sums.get(key, NOTHING) + prices.spent(pool, held, computed)
    rows = [Worked(workload, team, name, user, spent) for (workload, team, name, user), spent in sums.items()]
    return tuple(sorted(rows, key=lambda row: (-row.spent.held, row.team, row.name))[:limit])


def usage_row(line: Line, group_by: Sequence[str]) -> dict[str, Any]:
    """A line as REST and CSV have it."""
    spent = line.spent
    hours = (round(milli / MILLI_SECONDS_PER_GPU_HOUR, 3) for milli in (spent.held, spent.computed, spent.idle))
    cost = None if line.cost is None else float(line.cost.quantize(CENT))
    figures = dict(zip(USAGE_COLUMNS, (*hours, cost), strict=True))
    return {"start": iso(line.start), **dict(zip(group_by, line.keys, strict=True)), **figures}


def slo(since: float, until: float, names: Collection[str] | None) -> list[dict[str, Any]]:
    """How each service with an objective did on the requests of [since, until). Two queries. Raises TooMany."""
    windows = ServiceWindow.objects.filter(start__gte=since, start__lt=until).order_by().values_list("workload")
    sums: dict[UUID, tuple[int, int]] = {
        uid: (requests or 0, over or 0)
        for uid, requests, over in windows.annotate(r=Sum("requests"), o=Sum("over"))[: MAX_ROWS + 1]
    }
    if len(sums) > MAX_ROWS:
        raise TooMany
    found = Workload.objects.filter(pk__among=list(sums), kind=Kind.INFERENCE.value)
    if names is not None:
        found = found.filter(team__name__in=names)
    ordered = found.order_by("team__name", "name", "seq").values_list("pk", "team__name", "name", "spec")
    rows = []
    for uid, team, name, spec in ordered:
        objective = (spec.get("normalised") or {}).get("objective") or {}
        if objective.get("availability") is not None:
            rows.append(_kept(uid, team, name, objective, *sums[uid]))
    return rows


def _kept(uid: UUID, team: str, name: str, objective: Mapping[str, Any], requests: int, over: int) -> dict[str, Any]:
    target = objective["availability"]
    attainment = 1 - over / requests if requests else None
    left = 1 - over / (requests * (1 - target)) if requests and target < 1 else None
    values = (
        team, name, str(uid), target, objective.get("p95_seconds"), requests, over,
        None if attainment is None else round(attainment, 6), None if left is None else round(left, 4),
        None if attainment is None else attainment >= target, objective.get("of", ANSWER),
    )  # fmt: skip
    return dict(zip(SLO_COLUMNS, values, strict=True))
