"""The What-if lab: the same work under another policy, other quotas or nodes. For platform admins."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.jobspec.shapes import FieldError
from controlplane.queries.accounts import access
from controlplane.queries.scheduling import lab, policies, simulations
from controlplane.services.errors import Refused
from controlplane.services.scheduling import simulations as services
from frontend import charts, words
from frontend import lab as form
from frontend.answers import answer

SHOWN = 20
# Which way is better: less waiting, fewer preemptions, more use, fewer late requests. How many come says nothing.
FIGURES = (
    ("wait_p50_seconds", "Wait p50", "duration", -1),
    ("wait_p95_seconds", "Wait p95", "duration", -1),
    ("preemptions", "Preemptions", "count", -1),
    ("utilisation_percent", "Utilisation", "percent", 1),
    ("requests", "Requests", "many", 0),
    ("late_percent", "Late", "fine percent", -1),
    ("p95_seconds", "Worst p95", "milliseconds", -1),
)


@login_required
@require_http_methods(["GET", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The form and the newest what-ifs; on POST one is started, or the form comes back with each fault."""
    _only_admins(request)
    if request.method == "GET":
        return _page(request, {**form.STARTING, **request.GET.dict()}, ())
    values = {name: value for name, value in request.POST.dict().items() if name != "csrfmiddlewaretoken"}
    asked, errors = form.request(values)
    if errors:
        return _page(request, values, errors, 400)
    try:
        lab.read_question(asked)
        row = services.start(asked=asked, author=request.user.get_username())
    except lab.CannotBeAnsweredError as wrong:
        return _page(request, values, wrong.errors, 400)
    except Refused as refused:
        return _page(request, values, [FieldError("", refused.message)], refused.status)
    return redirect("frontend:simulation", row.pk)


@login_required
@require_GET
def simulation(request: HttpRequest, number: int) -> HttpResponse:
    """One what-if: how far it is, or what came of it."""
    _only_admins(request)
    row = simulations.row(number)
    if row is None:
        raise Http404
    found = simulations.result(number) if row["state"] == "Done" else None
    context = {
        "row": row,
        "percent": round(100 * row["progress"]),
        "found": found,
        "length": words.duration(found["episode"]["hours"] * 3600) if found else "",
        "differences": lab.differences(found) if found else [],
        "rows": _rows(found),
        "in_force": policies.in_force(),
        "has_settings": any((row["asked"].get("policy") or {}).values()),
    }
    return answer(request, "simulation", "simulation", context)


@login_required
@require_GET
def chart(request: HttpRequest, number: int) -> HttpResponse:
    """The figure of each team's waits before and after."""
    _only_admins(request)
    found = simulations.result(number)
    if not found:
        raise Http404
    return JsonResponse(charts.waits_before_and_after(found["teams"]))


@login_required
@require_POST
def apply(request: HttpRequest, number: int) -> HttpResponse:
    """Put the settings that were tried in force, unless the policy has changed since the page was made."""
    _only_admins(request)
    seen = request.POST.get("version", "")
    try:
        version = services.apply(
            number=number,
            author=request.user.get_username(),
            seen=int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else 0,
        )
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.info(request, f"Version {version} of the policy is current now: the settings of what-if {number}.")
    return redirect("frontend:simulation", number)


@login_required
@require_POST
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete a what-if; a running one stops."""
    _only_admins(request)
    services.remove(number=number)
    return redirect("frontend:lab")


def _only_admins(request: HttpRequest) -> None:
    if not access.is_platform_admin(request.user):
        raise PermissionDenied


def _page(request: HttpRequest, values: dict[str, Any], errors: Any, status: int = 200) -> HttpResponse:
    newest = simulations.rows(list(simulations.every().order_by("-pk")[:SHOWN]))
    drawn = form.fields(values, tuple(lab.POLICY_NAMES), errors)
    return render(request, "frontend/lab.html", {**drawn, "newest": newest}, status=status)


def _rows(found: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The figures of each team as the table shows them, each with whether it became better."""
    return [
        {
            "team": "All teams" if team["team"] == "all" else team["team"],
            "is_total": team["team"] == "all",
            "jobs": team["before"]["jobs"],
            "started": (team["before"]["started"], team["after"]["started"]),
            "cells": [_cell(team, *figure) for figure in FIGURES],
        }
        for team in (found["teams"] if found else ())
    ]


def _cell(team: dict[str, Any], name: str, label: str, unit: str, better: int) -> dict[str, str]:
    change = team["difference"].get(name)
    tone = "" if not change or not better else "ok" if change * better > 0 else "warn"
    said = "" if change is None else "no change" if not change else _signed(change, unit)
    before, after = (_said(team[side].get(name), unit) for side in ("before", "after"))
    return {"label": label, "before": before, "after": after, "change": said, "tone": tone}


def _said(value: float | None, unit: str) -> str:
    match unit:
        case _ if value is None:
            return words.NOT_KNOWN
        case "duration":
            return words.duration(value)
        case "percent":
            return f"{value:.1f} %"
        case "fine percent":
            return f"{value:.2f} %"
        case "milliseconds":
            return f"{1000 * value:,.0f} ms"
        case _:
            return f"{value:,.0f}"


def _signed(change: float, unit: str) -> str:
    sign = "+" if change > 0 else "\N{MINUS SIGN}"
    said = _said(abs(change), unit)
    return f"{sign}{said.removesuffix('%').rstrip()} points" if unit.endswith("percent") else f"{sign}{said}"
