"""Templates: the list of them, saving one from the submit form, deleting one."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.jobspec import spec
from controlplane.jobspec.shapes import FieldError
from controlplane.queries.accounts import access, personal
from controlplane.services.errors import Refused
from controlplane.services.workloads import templates as services
from frontend import forms
from frontend.answers import answer, signed_in, teams_for
from frontend.views.submit import PLATFORM, form_of, given_of, kind_of

OWN_FIELDS = {"name": "template_name", "about": "template_about"}


@login_required
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The platform's templates and those of the viewer's teams."""
    found = personal.templates(request.user).order_by("team__name", "name")
    rows = [(one, personal.may_change(request.user, one)) for one in found]
    may_submit = bool(teams_for(request, access.Verb.SUBMIT))
    return render(request, "frontend/templates.html", {"rows": rows, "may_submit": may_submit})


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Keep what the form says as a template; with `template_replace` over one of the same name."""
    names = teams_for(request, access.Verb.SUBMIT)
    kind, values = kind_of(request), given_of(request.POST)
    owner, name = request.POST.get("template_for", ""), request.POST.get("template_name", "").strip()
    if owner == PLATFORM and not access.is_platform_admin(request.user):
        raise PermissionDenied
    if owner != PLATFORM and owner not in names:
        raise Http404
    job, about = forms.document(kind, values), request.POST.get("template_about", "").strip()
    team = None if owner == PLATFORM else access.team_at(owner)
    try:
        services.checked(name, about)
        same = personal.templates(request.user).filter(team=team, name=name).first()
        if same and request.POST.get("template_replace"):
            if not personal.may_change(request.user, same):
                raise PermissionDenied
            made = services.change(template=same, about=about, job=job, version=None, actor=request.user.get_username())
        else:
            made = services.create(team=team, name=name, about=about, job=job, user=signed_in(request))
    except spec.SpecError as error:
        faults = [FieldError(_field(one.field), one.message) for one in error.errors]
        return render(request, "frontend/submit.html", form_of(request, kind, values, faults), status=400)
    except Refused as refused:
        faults = [FieldError(_field(refused.field), refused.message)]
        return render(request, "frontend/submit.html", form_of(request, kind, values, faults), status=refused.status)
    messages.info(request, f"The template {made.name} is saved.")
    return redirect(f"{reverse('frontend:submit')}?template={made.pk}")


@login_required
@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Ask, and on POST forget a template."""
    template = personal.template(request.user, number)
    if template is None:
        raise Http404
    if not personal.may_change(request.user, template):
        raise PermissionDenied
    if request.method == "GET":
        context = {
            "verb": "stop",
            "label": "Delete",
            "question": f"Delete the template {template.name}?",
            "effect": "It can no longer be used. Workloads that were submitted from it stay.",
            "action_url": reverse("frontend:remove_template", args=[number]),
        }
        return answer(request, "confirm", "confirm", context)
    services.remove(template=template, actor=request.user.get_username())
    messages.info(request, f"The template {template.name} is deleted.")
    return redirect("frontend:templates")


def _field(name: str) -> str:
    """The form's name of a field that a template's service names."""
    return OWN_FIELDS.get(name, name.removeprefix("job."))
