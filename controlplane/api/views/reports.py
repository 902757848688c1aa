"""Reports of a period: what was used and what it cost, and how services kept their objectives; as JSON or CSV."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import Parameter, View, endpoint, refuse
from controlplane.api.renamed import old_names, with_old_names
from controlplane.api.serializers import reports as answers
from controlplane.api.views.platform import FORMATS, MOMENT
from controlplane.domain import csvfile
from controlplane.domain.periods import month_at
from controlplane.jobspec import jobfile
from controlplane.jobspec.quantities import iso
from controlplane.jobspec.shapes import Choice, Items, Quantity
from controlplane.queries.reports import months, reports
from controlplane.queries.tenancy import platform as queries

TAG = "reports"
FROM = Parameter("from", MOMENT, "Cluster clock; 30 days before `to` if absent.")
TO = Parameter("to", MOMENT, "Cluster clock; the end of the running hour if absent.")
FORMAT = Parameter("format", FORMATS, "csv: a table for spreadsheets, formulas escaped.", "json")
TEAM = Parameter("team", jobfile.TEAM, "Of this team; else of all that you may see.")
MONTH = Parameter(
    "month",
    Quantity(month_at, 0, 4e9, '"2026-11"', ("1970-01", "2096-09")),
    "A month of the cluster's calendar, such as 2026-11; the running one if absent.",
)
DEFAULT = 30 * reports.DAY


class Report(View):
    """What reports share: the period and the two forms."""

    def period(self) -> tuple[float, float]:
        """The period asked for; refuses one that is turned around or too long."""
        given, now = self.given, queries.cluster_state()["seconds"]
        until = now - now % reports.HOUR + reports.HOUR if given["to"] is None else given["to"]
        since = max(0.0, until - DEFAULT) if given["from"] is None else given["from"]
        if since > until:
            refuse("from", f"from is {iso(since)}, which is after to, {iso(until)}. Set it before.")
        if until - since > reports.LONGEST:
            refuse("from", "from and to are more than 366 days apart. Ask for less at once.")
        return since, until

    def written(
        self,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        columns: Sequence[str],
        period: tuple[float, float],
        **more: Any,
    ) -> Any:
        """The rows as JSON with their period and what else is known of it, or as a file."""
        if self.given["format"] == "json":
            return Response({"from": iso(period[0]), "to": iso(period[1]), **more, "rows": list(rows)})
        text = csvfile.table(columns, ([row[column] for column in columns] for row in rows))
        response = HttpResponse(text, content_type=csvfile.CONTENT_TYPE)
        response["Content-Disposition"] = f'attachment; filename="weft-{name}.csv"'
        return response


class UsageReport(Report):
    """GPU hours and their cost."""

    @endpoint(
        answer=answers.UsageReport,
        csv=True,
        tag=TAG,
        operation="report_usage",
        parameters=(
            Parameter(
                "group_by",
                Items(Choice(tuple(reports.DIMENSIONS)), 3, is_unique=True),
                "Any of team, user and pool, comma between them.",
                ("team",),
            ),
            Parameter("granularity", Choice(tuple(reports.Step)), "A row for each of these, or for all of it.", "day"),
            FROM,
            TO,
            FORMAT,
        ),
    )
    def get(self, request: Request) -> Any:
        """Report GPU hours, and what those of your teams cost at the node pools' present prices.

        By team alone the hours are of every team, with `cost` null where you have no role in the team or above it; by
        user or pool they are of your teams.
        """
        since, until = self.period()
        group_by, step = self.given["group_by"], reports.Step(self.given["granularity"])
        try:
            lines = reports.usage_for(request.user, since, until, group_by=group_by, step=step)
        except queries.TooMany:
            refuse("granularity", f"The report has more than {queries.MAX_ROWS} rows. Group by less, or ask for less.")
        rows = with_old_names(answers.UsageLine, [reports.usage_row(line, group_by) for line in lines])
        columns = ("start", *group_by, *reports.USAGE_COLUMNS, *old_names(answers.UsageLine))
        return self.written("usage", rows, columns, (since, until))


class SlaReport(Report):
    """How services kept their objectives in a month."""

    @endpoint(answer=answers.MonthReport, csv=True, tag=TAG, operation="report_sla", parameters=(TEAM, MONTH, FORMAT))
    def get(self, request: Request) -> Any:
        """Report how the services of your teams, or of one, kept their objectives in a calendar month (UTC).

        The running month is known up to `noted_until`, which is an hour behind at most.
        """
        seen, team = queries.scope(request.user), self.given["team"]
        names = seen if team is None else [team] if seen is None or team in seen else []
        month = queries.cluster_state()["seconds"] if self.given["month"] is None else self.given["month"]
        try:
            found = months.report(month, names)
        except queries.TooMany:
            refuse("team", f"More than {queries.MAX_ROWS} services had an objective in this month. Name a team.")
        return self.written(
            f"sla-{found.month}",
            [months.row(line) for line in found.lines],
            months.COLUMNS,
            (found.start, found.end),
            month=found.month,
            noted_until=None if found.noted_until is None else iso(found.noted_until),
            teams=[months.total_row(total) for total in found.totals],
        )


class SloReport(Report):
    """How services kept their objectives."""

    @endpoint(answer=answers.SloReport, csv=True, tag=TAG, operation="report_slo", parameters=(FROM, TO, FORMAT))
    def get(self, request: Request) -> Any:
        """Report how the services of your teams kept their objectives over a period."""
        since, until = self.period()
        try:
            rows = reports.slo(since, until, queries.scope(request.user))
        except queries.TooMany:
            refuse("from", f"More than {queries.MAX_ROWS} services had requests. Ask for a shorter period.")
        return self.written("slo", rows, reports.SLO_COLUMNS, (since, until))
