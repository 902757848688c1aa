"""What was used and what it cost: by team, user or pool, over a period that the URL names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from controlplane.domain import csvfile
from controlplane.domain.periods import Period, span
from controlplane.queries.reports import reports
from controlplane.queries.tenancy.platform import TooMany
from controlplane.queries.workloads.prices import NOTHING
from frontend import charts
from frontend.answers import clock, link, seen_teams

RANGES = {"24h": reports.DAY, "7d": 7 * reports.DAY, "30d": 30 * reports.DAY}
MONTHS = ("this month", "last month")
GROUPS = {"team": "Team", "user": "User", "pool": "Node pool"}
STEPS = {"day": "Day", "week": "Week", "month": "Month"}
WORKLOADS = 50
TOO_MANY = "That is too much for one page. Choose a shorter period, or group by team."


@dataclass(frozen=True, slots=True)
class Asked:
    """What the URL asks for, made whole; fault says what of it could not be."""

    since: float
    until: float
    range: str
    group: str
    step: str
    first: str  # as the date fields show them
    last: str
    fault: str = ""


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """GPU hours and cost: a chart with its table, totals, and the workloads that held most."""
    asked, fault = _asked(request), ""
    lines: Sequence[reports.Line] = ()
    try:
        lines = _lines(request, asked)
    except TooMany:
        fault = TOO_MANY
    rows = reports.totals(lines)
    context = {
        "asked": asked,
        "faults": [text for text in (asked.fault, fault) if text],
        "rows": rows,
        "whole": sum((row.spent for row in rows), NOTHING),
        "is_priced": all(row.is_priced for row in rows),
        "lines": lines if request.GET.get("view") == "table" else (),
        "view": request.GET.get("view", ""),
        "label": GROUPS[asked.group],
        "workloads": reports.by_workload(asked.since, asked.until, seen_teams(request), WORKLOADS),
        "query": request.GET.urlencode(),
        "links": _links(request),
    }
    return render(request, "frontend/usage.html", context)


@login_required
@require_GET
def chart(request: HttpRequest) -> HttpResponse:
    """The figure: held GPU hours of each step, stacked."""

    def drawn(asked: Asked, lines: Sequence[reports.Line]) -> HttpResponse:
        figure = charts.usage_over_time(lines, is_team=asked.group == "team", since=asked.since, until=asked.until)
        return JsonResponse(figure)

    return _answer(request, drawn)


@login_required
@require_GET
def export(request: HttpRequest) -> HttpResponse:
    """The same as a file, formulas escaped."""

    def written(asked: Asked, lines: Sequence[reports.Line]) -> HttpResponse:
        columns = ("start", asked.group, *reports.USAGE_COLUMNS)
        rows = (reports.usage_row(line, (asked.group,)) for line in lines)
        text = csvfile.table(columns, ([row[column] for column in columns] for row in rows))
        response = HttpResponse(text, content_type=csvfile.CONTENT_TYPE)
        response["Content-Disposition"] = f'attachment; filename="weft-usage-{asked.first}-{asked.last}.csv"'
        return response

    return _answer(request, written)


def _answer(request: HttpRequest, write: Callable[[Asked, Sequence[reports.Line]], HttpResponse]) -> HttpResponse:
    """What is written of the lines that were asked for, or why it cannot be."""
    asked = _asked(request)
    try:
        lines = _lines(request, asked)
    except TooMany:
        return HttpResponse(TOO_MANY, status=400, content_type="text/plain; charset=utf-8")
    return write(asked, lines)


def _lines(request: HttpRequest, asked: Asked) -> Sequence[reports.Line]:
    step = reports.Step(asked.step)
    return reports.usage_for(request.user, asked.since, asked.until, group_by=(asked.group,), step=step)


def _asked(request: HttpRequest) -> Asked:
    given = {name: request.GET.get(name, "") for name in ("range", "group", "step", "from", "to")}
    group = given["group"] if given["group"] in GROUPS else "team"
    now = clock(request).now or timezone.now().timestamp()  # a cluster that was never seen has no clock yet
    fault, chosen = "", given["range"] if given["range"] in (*RANGES, *MONTHS) else "7d"
    since, until = _named(chosen, now)
    if given["from"] or given["to"]:
        chosen, since, until, fault = _dated(given, chosen, since, until)
    long = until - since > 92 * reports.DAY
    step = given["step"] if given["step"] in STEPS else "month" if long else "day"
    first, last = (_day(at).isoformat() for at in (since, max(since, until - 1)))
    return Asked(since, until, chosen, group, step, first, last, fault)


def _named(name: str, now: float) -> tuple[float, float]:
    """The period of a name; months are the calendar's, by the cluster's clock."""
    if name in MONTHS:
        start, end = span(Period.MONTH, now)
        return (start, end) if name == MONTHS[0] else span(Period.MONTH, max(0.0, start - 1))
    until = now // reports.HOUR * reports.HOUR + reports.HOUR
    return max(0.0, until - RANGES[name]), until


def _dated(given: Mapping[str, str], name: str, since: float, until: float) -> tuple[str, float, float, str]:
    """The period of two days, both included; what cannot be is said, and the named period stays."""
    try:
        first = date.fromisoformat(given["from"]) if given["from"] else _day(since)
        last = date.fromisoformat(given["to"]) if given["to"] else _day(until)
        start = datetime(first.year, first.month, first.day, tzinfo=UTC)
        end = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        return name, since, until, "From and to must be two dates. Write them as 2026-01-31."
    if not 0 <= start.timestamp() < end.timestamp():
        return name, since, until, f"From {first} is after to {last}. Choose an earlier date."
    if (end - start).days > 366:
        return name, since, until, f"{first} to {last} is more than 366 days. Ask for less at once."
    return "", start.timestamp(), end.timestamp(), ""


def _day(at: float) -> date:
    return datetime.fromtimestamp(at, UTC).date()


def _links(request: HttpRequest) -> dict[str, list[tuple[str, str]]]:
    """Where each choice leads, the others kept."""
    return {
        "range": [(name, link(request, range=name, **{"from": None, "to": None})) for name in (*RANGES, *MONTHS)],
        "group": [(name, link(request, group=name)) for name in GROUPS],
        "step": [(name, link(request, step=name)) for name in STEPS],
        "view": [("table", link(request, view="table")), ("", link(request, view=None))],
    }
