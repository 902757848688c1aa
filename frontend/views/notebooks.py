"""Notebooks: in use or idle, when they are parked, what shares their GPUs, and their addresses."""

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.queries.accounts import access
from controlplane.queries.workloads import notebooks
from controlplane.queries.workloads import workloads as queries
from controlplane.security.notebookkeys import TICKET_SECONDS
from controlplane.services.errors import Refused
from controlplane.services.workloads import bulkactions, idle
from frontend.answers import answer, clock, hand, is_part, teams_for


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
@require_http_methods(["GET", "POST"])
def by_name(request: HttpRequest, team: str, name: str) -> HttpResponse:
    """A notebook's own address, which stays: it says how to reach it, and brings it back if it is parked.

    The page asks for that by itself when it is opened, but not when it is drawn again.
    """
    w = notebooks.by_name(request.user, team, name)
    if w is None:
        raise Http404
    may_act = access.can(request.user, access.Verb.ACT, w.team.name)
    if request.method == "POST":
        if not may_act:
            raise PermissionDenied
        (done,) = bulkactions.act(
            verb="resume", chosen=[w], allowed=[w.pk], actor=request.user.get_username(), hand=hand(request)
        )
        if done.refusal:
            messages.error(request, done.refusal)
        if not is_part(request):
            return redirect("frontend:notebook", team, name)
        w = notebooks.by_name(request.user, team, name)
    (row,) = notebooks.rows(request.user, [w])
    is_parked = row.use is notebooks.Use.PARKED
    context = {
        "w": w,
        "row": row,
        "may_enter": may_act and notebooks.has_entrance(w),
        "may_resume": is_parked and may_act,
        "at_once": is_parked and may_act and not is_part(request) and not list(messages.get_messages(request)),
        "parks_in": row.parks_in(clock(request).now),
    }
    return answer(request, "notebook", "notebook", context)


@login_required
@require_GET
def enter(request: HttpRequest, uid: UUID) -> HttpResponse:
    """On to the notebook's own host, with what lets this session in there; one that does not run shows its page.

    `to` is the path there. It answers a page that leads there, and no redirect: our pages let no form lead to another
    host, and the one to sign in would.
    """
    w = queries.get(request.user, uid)
    if w is None or w.kind != "notebook":
        raise Http404
    if not access.can(request.user, access.Verb.ACT, w.team.name):
        raise PermissionDenied
    where = notebooks.entrance(w, request.user, request.session.session_key or "", request.GET.get("to", "/"))
    if where is None:
        return redirect("frontend:notebook", w.team.name, w.name)
    response = render(request, "frontend/entering.html", {"w": w, "where": where, "seconds": TICKET_SECONDS})
    response["Cache-Control"] = "no-store"
    return response


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
