"""Notebooks: in use or idle, when they are parked, what shares their GPUs, and their addresses."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from controlplane.queries.accounts import access
from controlplane.queries.workloads import notebooks
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import idle
from frontend.answers import answer, clock, teams_for


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The notebooks of the viewer's teams; with `mine=1` only the viewer's own."""
    names = teams_for(request, access.Verb.READ)
    wanted, is_mine = request.GET.get("team", ""), request.GET.get("mine") == "1"
    team = wanted if wanted in names else ""
    now = clock(request).now
    found = notebooks.notebooks(request.user, team, is_mine=is_mine)
    rows = [{"row": row, "w": row.workload, "parks_in": row.parks_in(now)} for row in found]
    context = {
        "rows": rows,
        "idle": sum(row.use is notebooks.Use.IDLE for row in found),
        "team": team,
        "is_mine": is_mine,
        "is_filtered": bool(team or is_mine),
        "team_names": names,
    }
    return answer(request, "notebooks", "notebook_rows", context)


@login_required
@require_POST
def extend(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Restart the countdown to parking."""
    w = queries.get(request.user, uid)
    if w is None:
        raise Http404
    if not access.can(request.user, access.Verb.ACT, w.team.name):
        raise PermissionDenied
    try:
        idle.extend(workload=w, actor=request.user.get_username())
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.info(request, f"{w.name} is extended: its idle time starts from zero again.")
    return redirect("frontend:notebooks")
