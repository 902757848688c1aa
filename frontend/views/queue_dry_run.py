"""The queue's what-if: a waiting workload at another priority, by dragging its row or by choosing a class."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.queries.accounts import access
from controlplane.queries.scheduling import priority_dry_run
from controlplane.queries.workloads import workloads as queries
from controlplane.services.errors import Refused
from controlplane.services.workloads import workloads as services
from frontend.answers import answer

MAX_NAMED = 8


@login_required
@require_http_methods(["GET", "POST"])
def dry_run(request: HttpRequest) -> HttpResponse:
    """The form, and what the chosen class (or the place a row was dragged to) would change. Nothing is written."""
    given = request.POST if request.method == "POST" else request.GET
    w = _waiting(request, given.get("uid", ""))
    tried, target = None, given.get("target", "")
    if target:
        tried = priority_dry_run.towards(str(w.pk), target)
    elif "priority_class" in given:
        tried = priority_dry_run.dry_run(str(w.pk), given["priority_class"])
    context: dict[str, Any] = {
        "w": w,
        "classes": priority_dry_run.classes(),
        "dry_run": tried,
        "chosen": tried.priority_class if tried else w.priority_class.name,
        "asked": bool(target) or "priority_class" in given,
        "overtaken": [one for one in tried.moved if one.after > one.before][:MAX_NAMED] if tried else [],
        "overtaken_count": sum(one.after > one.before for one in tried.moved) if tried else 0,
        "is_same": tried is not None and tried.priority_class == w.priority_class.name,
    }
    return answer(request, "queue_dry_run", "queue_dry_run", context)


@login_required
@require_POST
def apply(request: HttpRequest) -> HttpResponse:
    """Give the workload the class that was tried."""
    w = _waiting(request, request.POST.get("uid", ""))
    name = request.POST.get("priority_class", "")
    before = w.priority_class.name
    try:
        services.patch(workload=w, changes={"priority_class": name}, version=None, actor=request.user.get_username())
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        said = f"{w.name} has priority {name} now (before: {before})."
        messages.info(request, said, extra_tags=f"undo priority {w.pk} {before}")
    return redirect("frontend:queue")


def _waiting(request: HttpRequest, text: str) -> Any:
    if not access.is_platform_admin(request.user):
        raise PermissionDenied
    try:
        w = queries.get(request.user, UUID(text))
    except ValueError:
        w = None
    if w is None:
        raise Http404
    return w
