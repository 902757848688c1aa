"""The audit log: who asked for what, from where, and what came of it."""

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, Parameter, View, endpoint, refuse
from controlplane.api.serializers import auditlog as answers
from controlplane.api.views.platform import FORMATS, MOMENT
from controlplane.domain import csvfile
from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import Choice, Text
from controlplane.queries.audit import auditlog as queries


class AuditLog(View):
    """The log, for admins."""

    @endpoint(
        answer=answers.AuditPage,
        tag="audit log",
        operation="list_audit_log",
        csv=True,
        parameters=(
            Parameter("team", jobfile.TEAM, "About this team."),
            Parameter("actor", Text(150), "By this user."),
            Parameter("outcome", Choice(queries.OUTCOMES), "With this outcome."),
            Parameter("kind", Text(40), "With a first event of this kind, such as QuotaChanged."),
            Parameter("from", MOMENT, "Not before this moment."),
            Parameter("to", MOMENT, "Before this moment."),
            Parameter("format", FORMATS, "csv: the newest rows as a table for spreadsheets, no pages.", "json"),
            *PAGE,
        ),
    )
    def get(self, request: Request) -> Response | HttpResponse:
        """List what was asked and what came of it, newest first: all of it for platform admins, else your teams'."""
        if not queries.may_read(request.user):
            raise PermissionDenied("The audit log is for admins of the platform or of a team.")
        given = self.given
        filters = queries.Filters(
            team=given["team"] or "",
            actor=given["actor"] or "",
            outcome=given["outcome"] or "",
            kind=given["kind"] or "",
            since=given["from"],
            until=given["to"],
        )
        found = queries.entries(request.user, filters)
        if given["format"] == "csv":
            if "cursor" in request.GET or "page_size" in request.GET:
                refuse("format", "csv has no pages. Leave cursor and page_size out, and narrow it with from and to.")
            return _csv(queries.as_csv(found[: queries.MAX_ROWS]))
        return self.listed(found, "-number", queries.row)


def _csv(text: str) -> HttpResponse:
    headers = {"Content-Disposition": 'attachment; filename="audit-log.csv"', "Cache-Control": "no-store"}
    return HttpResponse(text, content_type=csvfile.CONTENT_TYPE, headers=headers)
