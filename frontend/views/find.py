"""Search over workloads, teams and nodes; and the end of the tour."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from controlplane.queries.workloads import search
from controlplane.services.accounts import preferences
from frontend.answers import answer, signed_in

TITLES = {"workload": "Workloads", "team": "Teams", "node": "Nodes"}


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """What has the text in its name, by kind."""
    text = request.GET.get("q", "").replace("\x00", "")[: search.LONGEST]
    hits: list[dict[str, Any]] = [{"hit": hit, "url": _url(hit)} for hit in search.find(request.user, text)]
    groups: list[tuple[str, list[dict[str, Any]]]] = [
        (title, [one for one in hits if one["hit"].kind == kind]) for kind, title in TITLES.items()
    ]
    context = {"q": text.strip(), "groups": [group for group in groups if group[1]]}
    return answer(request, "search", "search_results", context)


@login_required
@require_POST
def end_tour(request: HttpRequest) -> HttpResponse:
    """The tour was finished or dismissed."""
    preferences.note_tour(user=signed_in(request))
    return HttpResponse(status=204) if request.headers.get("HX-Request") else redirect("frontend:dashboard")


def _url(hit: search.Hit) -> str:
    if hit.kind == "workload":
        return reverse("frontend:workload", args=[hit.ref])
    if hit.kind == "node":
        return reverse("frontend:node", args=[hit.ref])
    return f"{reverse('frontend:workloads')}?{urlencode({'team': hit.ref})}"
