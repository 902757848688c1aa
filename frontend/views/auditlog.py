"""The audit log's tab: each request with its user and outcome. For admins of the platform or of a team."""

import json
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from controlplane.queries.accounts import access
from controlplane.queries.audit import auditlog
from frontend.answers import answer, link, number, teams_for

PAGE = 50
TONES = {"done": "ok", "denied": "bad", "refused": "warn", "failed": "bad"}


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The newest rows, narrowed down by what the URL says."""
    if not auditlog.may_read(request.user):
        raise PermissionDenied
    given = {name: request.GET.get(name, "").replace("\x00", "")[:150] for name in ("team", "actor", "outcome")}
    filters = auditlog.Filters(team=given["team"], actor=given["actor"], outcome=given["outcome"])
    found = auditlog.entries(request.user, filters)
    before = number(request.GET.get("before"), 0, 10**9)
    rows = list((found.filter(number__lt=before) if before else found)[: PAGE + 1])
    context = {
        **given,
        "rows": [_row(entry) for entry in rows[:PAGE]],
        "older": link(request, before=rows[PAGE - 1].number) if len(rows) > PAGE else "",
        "newer": link(request, before=None) if before else "",
        "is_filtered": any(given.values()),
        "team_names": teams_for(request, access.Verb.MANAGE),
        "outcomes": auditlog.OUTCOMES,
        "tab": "audit",
    }
    return answer(request, "audit", "audit_rows", context)


def _row(entry: Any) -> dict[str, Any]:
    changes = json.loads(entry.changes)
    return {
        "entry": entry,
        "tone": TONES.get(entry.outcome, "dim"),
        "changes": json.dumps(changes, indent=1, ensure_ascii=False) if changes else "",
    }
