"""The console is for platform admins only, who sign in on the pages."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from controlplane.queries.accounts import access


def _has_permission(request: HttpRequest) -> bool:
    return access.is_platform_admin(request.user)


def _login(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get("next") or request.path)


_all_urls = admin.site.get_urls


def _urls() -> list[Any]:
    """All but `r/<path>/<path>/`: nothing here needs it, and two parts of any text take the square of its length."""
    return [one for one in _all_urls() if getattr(one, "name", "") != "view_on_site"]


admin.site.get_urls = _urls  # type: ignore[method-assign]
admin.site.has_permission = _has_permission  # type: ignore[method-assign]


def _password_change(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """The pages' own: it asks for the present one, ends sessions and tokens, and is noted."""
    return redirect("frontend:settings")


admin.site.password_change = _password_change  # type: ignore[method-assign,assignment]
admin.site.login = _login  # type: ignore[method-assign]
admin.site.index_title = "Platform admin"
admin.site.unregister(Group)  # roles are memberships of teams
# allauth's tables hold secrets and identities: they are not edited by hand.
admin.site.unregister([one for one in admin.site._registry if one.__module__.startswith("allauth.")])


SECTIONS = (
    ("Quotas", ("quota", "nodepool", "priorityclass", "policyversion")),
    ("People", ("team", "membership", "groupmapping", "user", "token")),
    ("Notifications", ("webhook", "delivery", "notificationrule", "notice")),
    ("History", ("auditentry", "event", "cycle", "action", "lease", "audit", "startforecast")),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The console's side bar."""
    shown = {model.__name__.lower(): model for model in admin.site._registry}
    back = {"title": "Back to the pages", "link": reverse("frontend:teams")}
    sections: list[dict[str, Any]] = [{"items": [back]}]
    for title, names in SECTIONS:
        items = [
            {
                "title": str(shown[name]._meta.verbose_name_plural).capitalize(),
                "link": reverse(f"admin:controlplane_{name}_changelist"),
            }
            for name in names
        ]
        sections.append({"title": title, "separator": True, "items": items})
    return sections
