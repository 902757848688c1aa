"""Inference services: their objectives, replicas against load, and the decisions about them."""

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from controlplane.queries.accounts import access
from controlplane.queries.reports import sla
from controlplane.queries.workloads import serving
from controlplane.queries.workloads import workloads as queries
from frontend import charts, words
from frontend.answers import answer, clock, seen_teams, teams_for
from scheduler.model.workload import Kind

DECISIONS = 20
TABLE_ROWS = 60


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """All services of the viewer's teams, the worst first."""
    team = request.GET.get("team", "")
    names = teams_for(request, access.Verb.READ)
    chosen = [team] if team in names else seen_teams(request)
    rows = [_listed(one) for one in serving.services(clock(request).now, chosen)]
    context = {"rows": rows, "team": team if team in names else "", "team_names": names}
    return answer(request, "services", "service_rows", context)


@login_required
@require_GET
def detail(request: HttpRequest, uid: UUID) -> HttpResponse:
    """One service: its objective, its replicas and load, the decisions about them, and what was evicted for it."""
    w = _service(request, uid)
    now = clock(request).now
    stand = sla.one(now, w)
    context = {
        "w": w,
        "s": stand,
        "address": queries.address(w),
        "running": stand.replicas if stand else None,
        "view": request.GET.get("view", ""),
        "windows": tuple(reversed(serving.windows(now, uid)))[:TABLE_ROWS],
        "decisions": [{"event": event, "sentence": _decided(event)} for event in serving.scaled(uid, DECISIONS)],
        "taken": serving.taken(uid, DECISIONS, seen_teams(request)),
    }
    return answer(request, "service", "service_detail", context)


@login_required
@require_GET
def load_chart(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The figure of replicas against load."""
    w = _service(request, uid)
    return JsonResponse(charts.replicas_over_time(serving.windows(clock(request).now, w.pk)))


def _service(request: HttpRequest, uid: UUID) -> Any:
    w = queries.get(request.user, uid)
    if w is None or w.kind != Kind.INFERENCE.value:
        raise Http404
    return w


def _listed(one: serving.Listed) -> dict[str, Any]:
    return {
        "one": one,
        "s": one.standing,
        "last_at": one.last.cluster_at if one.last else None,
        "last": _decided(one.last) if one.last else "",
    }


def _decided(event: Any) -> str:
    """ "2 → 3 replicas: the p95 was 240 ms over 3 min"."""
    before, after = event.data.get("before"), event.data.get("after")
    if before is None or after is None:
        return str(event.message)
    why = event.message.removeprefix(f"{before} to {after} replicas: ")  # the autoscaler's own words begin with it
    return ": ".join(text for text in (f"{before} → {words.plural(int(after), 'replica')}", why) if text)
