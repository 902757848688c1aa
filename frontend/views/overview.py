"""The dashboard, its parts, the charts' figures, the clock and the stream."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from django.contrib.auth.decorators import login_not_required, login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from autoscaler.sla import Standing
from controlplane.queries.accounts import access, personal, viewers
from controlplane.queries.reports import dashboard, sla
from controlplane.queries.tenancy import teams
from controlplane.services.workloads import presets
from frontend import answers, charts, live, words
from frontend.answers import seen_teams, team_rows

RANGES = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0}
POINTS = 120
TABLE_POINTS = 24
LISTED = 6  # services, and rows of the waiting table
FEED = 10
TEAMS = 16  # on the dashboard


@login_required
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """The dashboard."""
    context: dict[str, Any] = {}
    for part in PARTS.values():
        context |= part(request)
    context["show_tour"] = "tour" in request.GET or not personal.has_toured(answers.signed_in(request))
    return render(request, "frontend/dashboard.html", context | _history(request))


@login_required
@require_GET
def part(request: HttpRequest, name: str) -> HttpResponse:
    """One part of the dashboard, as it is now."""
    if name not in PARTS:
        raise Http404
    return render(request, f"frontend/parts/{name}.html", PARTS[name](request))


@login_required
@require_GET
def history(request: HttpRequest) -> HttpResponse:
    """The panel with GPUs over time, as chart or table."""
    response = render(request, "frontend/parts/chart.html", _history(request))
    response["HX-Push-Url"] = f"/?{request.GET.urlencode()}" if request.GET else "/"
    return response


@login_required
@require_GET
def chart(request: HttpRequest) -> JsonResponse:
    """The figure of GPUs over time."""
    now = answers.clock(request).now
    moments = dashboard.history(now, RANGES[_range(request)], POINTS)
    rows = team_rows(request)
    figure = charts.gpus_over_time(moments, teams.colours(), dashboard.totals(now, rows).capacity)
    return JsonResponse(figure)


@login_required
@require_GET
def waiting_count(request: HttpRequest) -> HttpResponse:
    """The number beside Queue."""
    return render(request, "frontend/parts/count.html", {"count": dashboard.waiting_count()})


@login_required
@require_GET
def clock(request: HttpRequest) -> HttpResponse:
    """The simulated cluster's mark."""
    return render(request, "frontend/parts/clock.html")


@login_required
@require_POST
def pace(request: HttpRequest) -> HttpResponse:
    """Pause or resume the simulated clock."""
    state = dashboard.clock()  # not kept for this request: the answer shows the clock as it is afterwards
    if not access.is_platform_admin(request.user) or not state.is_simulated:
        raise PermissionDenied
    presets.set_pace(paused=request.POST.get("paused") == "1")
    return (
        render(request, "frontend/parts/clock.html")
        if request.headers.get("HX-Request")
        else redirect("frontend:dashboard")
    )


@login_not_required  # a stream answers 401: it cannot show the page to sign in
@require_GET
def stream(request: HttpRequest) -> HttpResponseBase:
    """Server-sent events: which parts have changed."""
    if not request.user.is_authenticated:
        return HttpResponse(status=401)
    response = StreamingHttpResponse(_told(viewers.viewer(request)), content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response


async def _told(viewer: viewers.Viewer) -> AsyncIterator[str]:
    async for text in live.stream(viewer):
        yield text


# --- parts ------------------------------------------------------------------------------------


def _tiles(request: HttpRequest) -> dict[str, Any]:
    now = answers.clock(request).now
    rows = team_rows(request)
    totals = dashboard.totals(now, rows)
    line = answers.once(request, "line", lambda: dashboard.line(now, RANGES["6h"], 40))
    services = _services(request)
    return {"tiles": [_computing(totals, line), _waiting(totals, line), _objectives(services), _idle(now, line)]}


def _computing(totals: dashboard.Totals, line: Sequence[dashboard.Line]) -> dict[str, Any]:
    return _tile(
        "GPUs computing",
        "map",
        whole(totals.computing),
        f"of {whole(totals.held)} allocated · {whole(totals.capacity)} in the cluster",
        [m.computing for m in line],
    )


def _waiting(totals: dashboard.Totals, line: Sequence[dashboard.Line]) -> dict[str, Any]:
    sentence = "no workload is waiting"
    if totals.waiting:
        sentence = f"median {words.rough(totals.wait_median)} · longest {words.rough(totals.wait_longest)}"
    tone = "warn" if totals.waiting else ""
    return _tile("Waiting", "queue", f"{totals.waiting:,}", sentence, [m.waiting for m in line], tone)


def _objectives(services: Sequence[sla.ServiceRow]) -> dict[str, Any]:
    known = [s for s in services if s.standing is not Standing.UNKNOWN]
    kept = [s for s in known if s.standing is not Standing.VIOLATED]
    risk = [s for s in known if s.standing is not Standing.MET]
    tile = _tile("Services in SLO", "services", f"{len(kept)} / {len(known)}", "no service has had requests yet", [])
    if not known:
        return {**tile, "number": words.NOT_KNOWN}
    tile["tone"] = "bad" if len(kept) < len(known) else "warn" if risk else "ok"
    worst = known[0]
    left = (
        "error budget exhausted"
        if (worst.budget_left or 0) < 0
        else f"{words.percent(worst.budget_left)} of error budget left"
    )
    return {**tile, "sentence": f"{worst.name}: {left}"}


def _idle(now: float, line: Sequence[dashboard.Line]) -> dict[str, Any]:
    wasted = dashboard.wasted(now)
    part = words.percent(wasted.idle / wasted.held, 1) if wasted.held else ""
    sentence = f"{part} of allocated, last 24 h" if part else "nothing was allocated in the last 24 h"
    if wasted.idle_before:
        change = wasted.idle / wasted.idle_before - 1
        sentence = f"{part} of allocated · {change:+.0%} vs. the day before"
    held = [m.held - m.computing for m in line]
    return _tile("Allocated but idle", "usage", f"{words.gpu_hours(wasted.idle)} GPU-h", sentence, held)


def _tile(label: str, page: str, number: str, sentence: str, line: Sequence[float], tone: str = "") -> dict[str, Any]:
    url = redirect(f"frontend:{page}").url
    return {"label": label, "url": url, "number": number, "sentence": sentence, "line": line, "tone": tone}


def whole(milli: float | None) -> str:
    """milli-GPU as whole GPUs, for totals."""
    return words.NOT_KNOWN if milli is None else f"{milli / 1000:,.0f}"


def _teams(request: HttpRequest) -> dict[str, Any]:
    used = [row for row in team_rows(request) if row.is_used]
    mine, is_admin = answers.roles(request), access.is_platform_admin(request.user)
    # One's own teams first, then those that hold most; all of them are on their page.
    first = sorted(used, key=lambda row: (row.name not in mine or is_admin, -row.held, row.name))
    rows = used if len(used) <= TEAMS else sorted(first[:TEAMS], key=lambda row: row.name)
    return {
        "teams": rows,
        "teams_total": len(used) if len(used) > len(rows) else 0,
        "scale": max([max(r.nominal, r.held) for r in rows], default=0) * 1.04,
    }


def _objectives_part(request: HttpRequest) -> dict[str, Any]:
    return {"services": _services(request)[:LISTED]}


def _services(request: HttpRequest) -> Sequence[sla.ServiceRow]:
    now = answers.clock(request).now
    return answers.once(request, "services", lambda: sla.services(now, seen_teams(request)))


def _decisions(request: HttpRequest) -> dict[str, Any]:
    found = dashboard.decisions(seen_teams(request), FEED)
    return {"decisions": [_told_by(decided) for decided in found]}


def _told_by(decided: dashboard.Decided) -> dict[str, Any]:
    sentence = words.event_sentence(decided.kind, decided.reason, decided.message, decided.data)
    row = {name: getattr(decided, name) for name in ("at", "kind", "reason", "workload", "team", "name")}
    return {**row, "sentence": sentence}


def _waiting_part(request: HttpRequest) -> dict[str, Any]:
    waiting, total = dashboard.queue(seen_teams(request), LISTED)
    return {"waiting": waiting, "waiting_total": total}


PARTS: dict[str, Callable[[HttpRequest], dict[str, Any]]] = {
    "tiles": _tiles,
    "teams": _teams,
    "objectives": _objectives_part,
    "decisions": _decisions,
    "waiting": _waiting_part,
}


def _range(request: HttpRequest) -> str:
    wanted = request.GET.get("range", "6h")
    return wanted if wanted in RANGES else "6h"


def _history(request: HttpRequest) -> dict[str, Any]:
    chosen, view = _range(request), request.GET.get("view", "")
    is_table = view == "table"
    now = answers.clock(request).now
    moments = dashboard.history(now, RANGES[chosen], TABLE_POINTS) if is_table else ()
    has_any = bool(moments) or dashboard.has_history(now, RANGES[chosen])
    context: dict[str, Any] = {"range": chosen, "ranges": list(RANGES), "view": view, "moments": has_any}
    if is_table:
        names, others = charts.largest_held(moments)
        table = [
            {
                "at": m.at,
                "held": [m.held.get(n, 0) for n in names]
                + [sum(held for name, held in m.held.items() if name in others)] * bool(others),
                "total": sum(m.held.values()),
                "computing": m.computing,
            }
            for m in reversed(moments)
        ]
        context |= {"names": [*names, *[f"{len(others)} others"] * bool(others)], "table": table}
    return context
