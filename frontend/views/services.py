"""Inference services: their objectives, replicas against load, and the decisions about them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from autoscaler.standings import MINUTE, Moment
from controlplane.domain import csvfile
from controlplane.domain.periods import month_at
from controlplane.jobspec.objective import within as promised
from controlplane.jobspec.spec import SpecError
from controlplane.lifecycle.canaries import WHOLE
from controlplane.queries.accounts import access
from controlplane.queries.reports import months, sla, standings
from controlplane.queries.tenancy.platform import TooMany
from controlplane.queries.workloads import limits, objectiveprice, scaler, serving, sleeping, standby
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.intake import ownership
from controlplane.services.workloads import workloads as services
from frontend import revising, servicechart, words
from frontend.answers import answer, clock, hand, is_part, number, seen_teams, teams_for
from scheduler.model.workload import Kind

DECISIONS = 20
MARKS = 300  # decisions of the last hours in the chart, at most
TOO_MANY = "That is too much for one report. Choose a team."
TABLE_ROWS = 60
REPORTED, MOST_REPORTED = 50, 1000  # services on one page of a report: at first, and when all are asked for


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
        "where": serving.where(uid),
        "standby": standby.of_service(w, now),
        "sleep": sleeping.of_service(w),
        "scaler": scaler.of_service(w),
        "limit": limits.of_service(w),
        "view": request.GET.get("view", ""),
        "rows": _rows(w, now, seen_teams(request)) if request.GET.get("view") == "table" else (),
        "has_windows": serving.has_windows(now, uid),
        "decisions": [{"event": event, "sentence": _decided(event)} for event in serving.scaled(uid, DECISIONS)],
        "taken": serving.taken(uid, DECISIONS, seen_teams(request)),
        "may_change": _may_change(request, w) and not ownership.refusal(w, "change", hand(request)),
        **revising.shown(w),
    }
    return answer(request, "service", "service_detail", context)


@login_required
@require_http_methods(["GET", "POST"])
def change(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Ask for another image, environment or objective; on POST bring it in."""
    w = _changeable(request, uid)
    if request.method == "GET":
        return answer(request, "confirm", "confirm", revising.question(w, revising.texts(w.spec), {}))
    faults: dict[str, str] = {}
    try:
        changes = revising.changes(w.spec, request.POST)
        services.patch(workload=w, changes=changes, version=None, actor=request.user.get_username())
    except Refused as refused:
        faults = {refused.field: refused.message}
    except SpecError as refused:
        faults = {error.field: error.message for error in refused.errors}
    if faults:
        response = answer(request, "confirm", "confirm", revising.question(w, request.POST, faults))
        response.status_code = 422
        return response
    messages.info(request, f"Changing {w.name}." if changes else f"{w.name} is as it was: nothing was changed.")
    return redirect("frontend:service", uid)


@login_required
@require_http_methods(["GET", "POST"])
def rollback(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Ask before an earlier revision is brought back; on POST do it."""
    w = _changeable(request, uid)
    to = number(request.GET.get("to"), 0)
    if request.method == "GET":
        return answer(request, "confirm", "confirm", revising.undo(w, to))
    try:
        services.undo(workload=w, actor=request.user.get_username(), to=to or None, hand=hand(request))
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.info(request, f"Rolling {w.name} back.")
    return redirect("frontend:service", uid)


@login_required
@require_http_methods(["GET", "POST"])
def traffic(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The part of the requests that a canary gets; on POST give it another."""
    if request.method == "GET":
        return render(request, "frontend/parts/service_traffic.html", _traffic(request, _service(request, uid)))
    w = _changeable(request, uid)
    if (weight := number(request.POST.get("weight"), 0)) == WHOLE:
        return _promoted(request, w)
    fault = _weigh(request, w, weight)
    w.refresh_from_db()
    response = render(request, "frontend/parts/service_traffic.html", {**_traffic(request, w), "fault": fault})
    response.status_code = 422 if fault else 200
    return response


@login_required
@require_http_methods(["GET", "POST"])
def promote(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Ask before a canary replaces the revision before; on POST do it."""
    w = _changeable(request, uid)
    rollout = revising.shown(w)["rollout"]
    if rollout is None or not rollout["is_canary"]:
        messages.info(request, f"{w.name} has no revision to promote.")
        return redirect("frontend:service", uid)
    if request.method == "GET":
        return answer(request, "confirm", "confirm", revising.promotion(w, rollout))
    return _promoted(request, w)


def _promoted(request: HttpRequest, w: Any) -> HttpResponse:
    fault = _weigh(request, w, WHOLE)
    (messages.error if fault else messages.info)(request, fault or f"Promoting revision {w.revision} of {w.name}.")
    if is_part(request):
        response = HttpResponse()
        response["HX-Redirect"] = reverse("frontend:service", args=[w.pk])
        return response
    return redirect("frontend:service", w.pk)


def _weigh(request: HttpRequest, w: Any, weight: int) -> str:
    """Give a canary another part of the requests; why not, or empty."""
    try:
        changes = revising.weighed(w.spec, weight)
        services.patch(workload=w, changes=changes, version=None, actor=request.user.get_username(), hand=hand(request))
    except Refused as refused:
        return refused.message
    except SpecError as refused:
        return " ".join(error.message for error in refused.errors)
    return ""


def _traffic(request: HttpRequest, w: Any) -> dict[str, Any]:
    may_change = _may_change(request, w) and not ownership.refusal(w, "change", hand(request))
    return {"w": w, "may_change": may_change, **revising.shown(w)}


@login_required
@require_GET
def price(request: HttpRequest, uid: UUID) -> HttpResponse:
    """What the latency and the standby that stand in the form would cost, beside what the present ones do."""
    w = _service(request, uid)
    asked = revising.latency(request.GET)
    waiting = revising.replicas_on_standby(request.GET.get(revising.STANDING_BY, ""), w)
    now, other = objectiveprice.costs(w, clock(request).now, asked, waiting)
    told = (revising.costs(now, other, w.workers_max), standby.price_of(w, waiting))
    return render(request, "frontend/parts/price.html", {"sentence": " ".join(one for one in told if one)})


@login_required
@require_GET
def history_chart(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The figure of the last hours: latency, budget, replicas and load, and what was decided."""
    w, now = _service(request, uid), clock(request).now
    windows = serving.windows(now, uid)
    decided = [
        servicechart.Mark(one.cluster_at, _decided(one), after, after >= (one.data.get("before") or 0))
        for one in serving.scaled(uid, MARKS)
        if (after := one.data.get("after")) is not None and one.cluster_at >= now - serving.SIX_HOURS
    ]
    taken = [
        servicechart.Mark(one.at, f"took GPUs of {f'{one.team}/{one.name}' if one.name else f'team {one.team}'}")
        for one in serving.taken(uid, MARKS, seen_teams(request))
        if one.at >= now - serving.SIX_HOURS
    ]
    to = serving.borrowers([one.lent_to for one in windows], seen_teams(request))
    target = promised(sla.objective(w.spec))
    return JsonResponse(servicechart.drawn(windows, _stood(w, now), target, decided, taken, to))


@login_required
@require_GET
def report(request: HttpRequest) -> HttpResponse:
    """A month of the viewer's services, by team and by service."""
    names, now = seen_teams(request), clock(request).now
    chosen, at = _month(request, names, now)
    found, fault = None, ""
    try:
        found = months.report(at, chosen)
    except TooMany:
        fault = TOO_MANY
    most = MOST_REPORTED if request.GET.get("lines") == "all" else REPORTED
    more = request.GET.copy()
    more["lines"] = "all"
    context = {
        "report": found,
        "fault": fault,
        "lines": found.worst(most) if found else (),
        "left_out": found is not None and len(found.lines) > most,
        "more": more.urlencode() if most == REPORTED else "",
        "team": request.GET.get("team", "") if chosen != names else "",
        "team_names": months.teams(names),
        "months": months.known(now, names),
        "query": request.GET.urlencode(),
    }
    return render(request, "frontend/sla_report.html", context)


@login_required
@require_GET
def report_export(request: HttpRequest) -> HttpResponse:
    """The same rows as a file, formulas escaped."""
    chosen, at = _month(request, seen_teams(request), clock(request).now)
    try:
        found = months.report(at, chosen)
    except TooMany:
        return HttpResponse(TOO_MANY, status=400, content_type="text/plain; charset=utf-8")
    rows = (months.row(line) for line in found.lines)
    text = csvfile.table(months.COLUMNS, ([row[column] for column in months.COLUMNS] for row in rows))
    response = HttpResponse(text, content_type=csvfile.CONTENT_TYPE)
    response["Content-Disposition"] = f'attachment; filename="weft-sla-{found.month}.csv"'
    return response


def _service(request: HttpRequest, uid: UUID) -> Any:
    w = queries.get(request.user, uid)
    if w is None or w.kind != Kind.INFERENCE.value:
        raise Http404
    return w


def _may_change(request: HttpRequest, w: Any) -> bool:
    return access.can(request.user, access.Verb.CHANGE, w.team.name, submitter=w.created_by_id)


def _changeable(request: HttpRequest, uid: UUID) -> Any:
    w = _service(request, uid)
    if not _may_change(request, w):
        raise PermissionDenied
    return w


def _rows(w: Any, now: float, seen: list[str] | None) -> list[dict[str, Any]]:
    """The newest minutes with what was left of the budget after each, and which teams had its GPUs."""
    left = {one.at // MINUTE: one.budget_left for one in _stood(w, now)}
    newest = tuple(reversed(serving.windows(now, w.pk)))[:TABLE_ROWS]
    to = serving.borrowers([m.lent_to for m in newest], seen)
    return [
        {
            "m": m,
            "left": left.get((m.start + MINUTE) // MINUTE),
            "to": [(one.name or "other teams", n) for one in to if (n := one.gpus[i])],
        }
        for i, m in enumerate(newest)
    ]


def _stood(w: Any, now: float) -> tuple[Moment, ...]:
    """How it stood in each minute of the chart's hours, from its first window on."""
    until = now // MINUTE * MINUTE
    return standings.history(w, until - serving.SIX_HOURS, until)


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
    if "awake" in event.data or "limit" in event.data:  # its own words say how many serve, or what is raised
        return str(event.message)
    if before is None or after is None:
        return str(event.message)
    why = event.message.removeprefix(f"{before} to {after} replicas: ")  # the autoscaler's own words begin with it
    return ": ".join(text for text in (f"{before} → {words.plural(int(after), 'replica')}", why) if text)


def _month(request: HttpRequest, names: list[str] | None, now: float) -> tuple[list[str] | None, float]:
    """The teams (None: all) and a moment of the month that the URL names; what cannot be is left out."""
    team = request.GET.get("team", "")
    chosen = [team] if team and (names is None or team in names) else names
    try:
        at = min(month_at(request.GET.get("month", "")), now)
    except ValueError:
        at = now
    return chosen, max(0.0, at)
