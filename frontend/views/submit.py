"""Submitting from the browser: the form, what the next round would say to it, and the same as YAML, CLI and curl."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlplane import spec
from controlplane.queries import access, dashboard, teams
from controlplane.queries import workloads as queries
from controlplane.services import workloads as services
from controlplane.services.errors import Refused
from controlplane.services.rehearsal import rehearse
from controlplane.shapes import FieldError
from frontend import forms, layout
from frontend.views.answers import signed_in, teams_for
from scheduler.workload import Kind


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """The form; on POST the submission, or the form with each fault at its field."""
    names = teams_for(request, access.Verb.SUBMIT)
    if not names:
        raise PermissionDenied
    kind = _kind(request)
    if request.method == "GET":
        values = {**layout.STARTING[kind], "team": names[0], **_given(request.GET)}
        return render(request, "frontend/submit.html", _form(kind, values, (), names))
    values = _given(request.POST)
    try:
        parsed = _parsed(request, kind, values, names)
        made = services.submit(spec=parsed, user=signed_in(request), actor=request.user.get_username())
    except spec.SpecError as error:
        return render(request, "frontend/submit.html", _form(kind, values, error.errors, names), status=400)
    except Refused as refused:
        fault = FieldError(refused.field, refused.message)
        return render(request, "frontend/submit.html", _form(kind, values, (fault,), names), status=refused.status)
    messages.info(request, f"{made.name} is queued.")
    return redirect("frontend:workload", made.pk)


@login_required
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """What the next round would decide; nothing is submitted."""
    names = teams_for(request, access.Verb.SUBMIT)
    kind, values = _kind(request), _given(request.POST)
    job = forms.document(kind, values)
    context: dict[str, Any] = {"copies": forms.copies(job, f"{request.scheme}://{request.get_host()}")}
    try:
        parsed = _parsed(request, kind, values, names)
        unmet = rehearse(spec=parsed, user=signed_in(request))
        found = queries.preview(request.user, parsed, unmet)
        context |= {"answer": found, "in_queue": dashboard.waiting_count() + 1}
    except spec.SpecError as error:
        context["faults"] = error.errors
    except Refused as refused:
        context["refused"] = refused.message
    return render(request, "frontend/parts/preview.html", context)


def _parsed(request: HttpRequest, kind: Kind, values: dict[str, str], names: list[str]) -> spec.Spec:
    parsed = spec.parse(forms.document(kind, values))
    if parsed.team not in names:
        raise Refused(403, "Forbidden", "team", f"You may not submit for team {parsed.team}. Choose one of yours.")
    return parsed


def _kind(request: HttpRequest) -> Kind:
    wanted = request.POST.get("type") or request.GET.get("type") or ""
    return Kind(wanted) if wanted in set(Kind) else Kind.TRAINING


def _given(data: Any) -> dict[str, str]:
    return {name: value for name, value in data.items() if name not in ("csrfmiddlewaretoken", "type")}


def _form(kind: Kind, values: dict[str, str], errors: Any, names: list[str]) -> dict[str, Any]:
    choices = {"team": names, "priority_class": teams.priority_classes()}
    groups, faults = forms.groups(kind, values, errors, choices)
    return {
        "kind": kind.value,
        "kinds": [k.value for k in Kind],
        "about": layout.ABOUT[kind],
        "groups": groups,
        "faults": faults,
    }
