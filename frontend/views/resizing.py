"""CPU and memory of the workers of what runs, changed in place."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane.jobspec.spec import SpecError
from controlplane.lifecycle.resizing import RESIZABLE
from controlplane.queries.accounts import access
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import workloads as services
from frontend import words
from frontend.answers import answer
from frontend.forms import FormField
from frontend.layout import WIDTH

VERB = "resize"
EFFECT = "Its workers go on while their nodes change it. If a node refuses, it is put back."
_FIELDS = (("cpu", "CPU", "cores", "Such as 8 or 500m."), ("memory", "Memory", "", "Such as 64Gi."))


@login_required
@require_http_methods(["GET", "POST"])
def resize(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Ask for the CPU and memory of each worker; on POST have them changed."""
    w = queries.get(request.user, uid)
    if w is None:
        raise Http404
    if not access.can(request.user, access.Verb.CHANGE, w.team.name, submitter=w.created_by_id):
        raise PermissionDenied
    before = w.spec["resources"]
    if request.method == "GET":
        return answer(request, "confirm", "confirm", _question(w, before, {}))
    given = {name: request.POST.get(f"resources.{name}", "").strip() for name, *_ in _FIELDS}
    try:
        services.patch(
            workload=w,
            changes={"resources": before | {name: text for name, text in given.items() if text}},
            version=None,
            actor=request.user.get_username(),
        )
    except Refused as refused:
        return _again(request, w, given, {refused.field: refused.message})
    except SpecError as refused:
        return _again(request, w, given, {error.field: error.message for error in refused.errors})
    messages.info(request, f"Resizing {w.name}.")
    return redirect("frontend:workload", uid)


def may_be(w: Any) -> bool:
    """Whether its workers run, so that they can be resized."""
    return w.phase in RESIZABLE


def shown(w: Any) -> dict[str, Any]:
    """What the head of its page says of a resize that goes on."""
    now = queries.resize_of(w)
    if now is None:
        return {}
    what = "gets back" if now["is_put_back"] else "is being given"
    text = f"Each worker {what} {words.size(now['cpu_milli'], now['memory_mib'])}"
    if now["message"]:
        text += f" ({now['message']})"
    return {"resizing": text, "resize_since": datetime.fromisoformat(now["since"]).timestamp()}


def _again(request: HttpRequest, w: Any, given: dict[str, str], faults: dict[str, str]) -> HttpResponse:
    response = answer(request, "confirm", "confirm", _question(w, given, faults))
    response.status_code = 422
    return response


def _question(w: Any, values: Any, faults: dict[str, str]) -> dict[str, Any]:
    others = [text for field, text in faults.items() if field not in {f"resources.{name}" for name, *_ in _FIELDS}]
    return {
        "w": w,
        "verb": VERB,
        "label": "Resize",
        "question": f"Resize each worker of {w.name}?",
        "effect": " ".join([*others, EFFECT]),
        "fields": [
            FormField(path, label, text, str(values.get(name) or ""), faults.get(path, ""), unit=unit, width=WIDTH[1])
            for name, label, unit, text in _FIELDS
            for path in (f"resources.{name}",)
        ],
        "action_url": reverse("frontend:resize", args=[w.pk]),
    }
