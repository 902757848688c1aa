"""Submitting from the browser: the form, what the next round would say to it, and the same as YAML, CLI and curl."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.jobspec import spec
from controlplane.jobspec.shapes import FieldError
from controlplane.queries.accounts import access, personal
from controlplane.queries.cells import views
from controlplane.queries.tenancy import teams
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import workloads as services
from controlplane.services.workloads.rehearsal import rehearse
from controlplane.services.workloads.templates import STAND_INS
from frontend import forms, layout, suggestions
from frontend.answers import number, signed_in, teams_for
from scheduler.model.workload import Kind

PLATFORM = "*"  # in the place of a team: a template for all teams
NOT_A_FORM = "The form cannot show all of this job file. Copy its YAML and submit it with the CLI."


@login_required
@require_http_methods(["GET", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """The form, empty or from a template or another workload; on POST the submission, or each fault at its field."""
    names = teams_for(request, access.Verb.SUBMIT)
    if not names:
        raise PermissionDenied
    if request.method == "GET":
        return _begin(request, names)
    kind, values = kind_of(request), given_of(request.POST)
    try:
        parsed = _parsed(request, kind, values, names)
        made = services.submit(spec=parsed, user=signed_in(request), actor=request.user.get_username())
    except spec.SpecError as error:
        return render(request, "frontend/submit.html", form_of(request, kind, values, error.errors), status=400)
    except Refused as refused:
        fault = FieldError(refused.field, refused.message)
        return render(request, "frontend/submit.html", form_of(request, kind, values, (fault,)), status=refused.status)
    messages.info(request, f"{made.name} is queued.")
    return redirect("frontend:workload", made.pk)


def _begin(request: HttpRequest, names: list[str]) -> HttpResponse:
    """The form as its address asks for it."""
    kind, known = kind_of(request), {**layout.STARTING[kind_of(request)], **given_of(request.GET)}
    if "template" in request.GET:
        template = personal.template(request.user, number(request.GET["template"], 0, 10**9))
        if template is None:
            raise Http404
        kind = Kind(template.kind)
        texts = suggestions.texts_of(kind, {**STAND_INS, **template.job})
        if texts is None:
            messages.error(request, NOT_A_FORM)
        known = {path: text for path, text in (texts or {}).items() if path in template.job or path not in STAND_INS}
        known |= {"template": str(template.pk)} | ({"team": template.team.name} if template.team else {})
    elif "from" in request.GET:
        uid = request.GET["from"]
        other = queries.get(request.user, uid) if "/" not in uid else None
        if other is None:
            raise Http404
        kind = Kind(other.kind)
        job = suggestions.job_of(other.spec)
        texts = suggestions.texts_of(kind, {**job, "name": f"{other.name[:60]}-2"})
        if texts is None:
            messages.error(request, NOT_A_FORM)
            return redirect(f"{reverse('frontend:workload', args=[other.pk])}?tab=file")
        known = texts
    if known.get("team") not in names:
        known["team"] = names[0]
    return render(request, "frontend/submit.html", form_of(request, kind, known, ()))


@login_required
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """What the next round would decide; nothing is submitted."""
    names = teams_for(request, access.Verb.SUBMIT)
    kind, values = kind_of(request), given_of(request.POST)
    job = forms.document(kind, values)
    context: dict[str, Any] = {"copies": forms.copies(job, f"{request.scheme}://{request.get_host()}")}
    try:
        parsed = _parsed(request, kind, values, names)
        unmet = rehearse(spec=parsed, user=signed_in(request))
        context["answer"] = queries.preview(request.user, parsed, unmet)
    except spec.SpecError as error:
        context["faults"] = error.errors
    except Refused as refused:
        context["refused"] = refused.message
    return render(request, "frontend/parts/preview.html", context)


def _parsed(request: HttpRequest, kind: Kind, values: dict[str, str], names: list[str]) -> spec.Spec:
    parsed = spec.parse(forms.document(kind, values))
    if parsed.team not in names:
        if access.can(request.user, access.Verb.READ, parsed.team):
            raise Refused(403, "Forbidden", "team", access.LOW_ROLE.format(team=parsed.team))
        raise Refused(404, "NotFound", "team", access.NO_TEAM.format(team=parsed.team))
    return parsed


def _cells(given: str) -> dict[str, list[str]]:
    """The cells to choose from, where there are some; one that was given stays, so that its refusal can be read."""
    offered = views.shown_names()
    return {"cell": [*offered, *([given] if given not in ("", *offered) else [])]} if offered else {}


def kind_of(request: HttpRequest) -> Kind:
    """The type that the form or the address names."""
    wanted = request.POST.get("type") or request.GET.get("type") or ""
    return Kind(wanted) if wanted in set(Kind) else Kind.TRAINING


def given_of(data: Any) -> dict[str, str]:
    """The form's texts."""
    return {name: value for name, value in data.items() if name not in ("csrfmiddlewaretoken", "type", "from")}


def form_of(request: HttpRequest, kind: Kind, values: dict[str, str], errors: Iterable[FieldError]) -> dict[str, Any]:
    """What the page draws: the groups of fields with their faults, and the templates to begin from."""
    names = teams_for(request, access.Verb.SUBMIT)
    own = {e.field: e.message for e in errors if e.field in ("template_name", "template_about")}
    choices = {"team": names, "priority_class": teams.priority_classes(), **_cells(values.get("cell", ""))}
    groups, faults = forms.groups(kind, values, [e for e in errors if e.field not in own], choices)
    owners = [*names, *([PLATFORM] if access.is_platform_admin(request.user) else [])]
    return {
        "kind": kind.value,
        "kinds": [k.value for k in Kind],
        "about": layout.ABOUT[kind],
        "groups": groups,
        "faults": faults,
        "templates": personal.templates(request.user, kind=kind.value).order_by("team__name", "name"),
        "begun_from": number(values.get("template"), 0, 10**9),
        "template_values": {name: values.get(name, "") for name in values if name.startswith("template_")},
        "template_faults": own,
        "owners": owners,
    }
