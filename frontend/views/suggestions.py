"""What would start a waiting workload, applied after a question."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from controlplane.domain.suggestion import Verdict
from controlplane.jobspec.spec import SpecError
from controlplane.queries.accounts import access
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import suggestions as services
from frontend.answers import answer, number
from frontend.suggestions import choice_of, effect
from scheduler.explain.change import IN_QUOTA, ChangeKind, Choice


@login_required
@require_http_methods(["GET", "POST"])
def apply(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Say what applying one suggestion means, or what would start the workload instead; on POST apply it."""
    w = queries.get(request.user, uid)
    if w is None:
        raise Http404
    try:
        choice = choice_of(request.GET)
    except ValueError:  # an odd address is no reason to fail
        if not access.can(request.user, access.Verb.CHANGE, w.team.name, submitter=w.created_by_id):
            raise PermissionDenied from None
        return redirect("frontend:workload", uid)
    victim = _allowed(request, w, choice)
    verdict = queries.verdict(request.user, w, choice)
    if request.method == "GET":
        return answer(request, "confirm", "confirm", _question(request, w, verdict, victim))
    seen = number(request.GET.get("version"), 0) or None
    try:
        services.apply(workload=w, verdict=verdict, version=seen, actor=request.user.get_username())
    except Refused as refused:
        messages.error(request, refused.message)
    except SpecError as refused:
        messages.error(request, refused.errors[0].message)
    else:
        messages.info(request, f"Applied to {w.name}: {verdict.text}")
    return redirect("frontend:workload", uid)


def _allowed(request: HttpRequest, w: Any, choice: Choice) -> Any:
    """Raise unless the user may make the change by other means; the other workload, of a stop."""
    user = request.user
    if choice.kind in IN_QUOTA:
        may, victim = access.is_platform_admin(user), None
    elif choice.kind is ChangeKind.STOP:
        victim = queries.get(user, choice.target)
        if victim is None:
            raise Http404
        may = access.can(user, access.Verb.ACT, victim.team.name)
    else:
        may, victim = access.can(user, access.Verb.CHANGE, w.team.name, submitter=w.created_by_id), None
    if not may:
        raise PermissionDenied
    return victim


def _question(request: HttpRequest, w: Any, verdict: Verdict, victim: Any) -> dict[str, Any]:
    change = verdict.change
    said = "" if change is None else f" {effect(change, w, victim)}"
    is_stop = change is not None and change.kind is ChangeKind.STOP
    return {
        "w": w,
        "verb": "stop" if is_stop else "apply",
        "label": f"Stop {victim.name}" if is_stop else "Apply",
        "question": f"Start {w.name} now?" if change else f"{w.name} would not start with that",
        "effect": f"{verdict.text}{said}",
        "action_url": request.get_full_path() if change else "",
    }
