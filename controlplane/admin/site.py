"""Who may enter, and by which door: the pages' own sign-in, for platform admins only."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from controlplane.queries import access


def _has_permission(request: HttpRequest) -> bool:
    return access.is_platform_admin(request.user)


def _login(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get("next") or request.path)


admin.site.has_permission = _has_permission  # type: ignore[method-assign, assignment]
admin.site.login = _login  # type: ignore[method-assign, assignment]
admin.site.index_title = "Platform admin"
admin.site.unregister(Group)  # roles are memberships of teams
