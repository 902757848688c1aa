"""Signing in and out."""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlplane.services.accounts import logins
from controlplane.services.errors import Refused
from controlplane.services.workloads import presets
from controlplane.signin.configuration import PROVIDER

ROLES = {"admin": "team admin", "member": "member", "viewer": "viewer: read only"}


@login_not_required  # it answers 401: an open page asks whether its session goes on
@require_GET
def session(request: HttpRequest) -> HttpResponse:
    """Who is signed in, and the CSRF token that forms of an open page need from now on; 401 if no user is."""
    if not request.user.is_authenticated:
        return HttpResponse(status=401, headers={"Cache-Control": "no-store"})
    known = {"user": request.user.get_username(), "csrf": get_token(request)}
    return JsonResponse(known, headers={"Cache-Control": "no-store"})


def form_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The page for a form without a right CSRF token (CSRF_FAILURE_VIEW)."""
    return render(request, "403_csrf.html", status=403)


class PasswordForm(AuthenticationForm):
    """Name and password, checked by the same service as the API's login, which counts failures."""

    def clean(self) -> dict[str, Any]:
        """Find the user; any failure reads the same."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        if not name or not password:
            raise ValidationError("Give a user name and a password.")
        try:
            self.user_cache = logins.check(username=name, password=password, address=address)
        except Refused as refused:
            raise ValidationError(refused.message) from refused
        except logins.TooMany as many:
            seconds = many.retry_after
            wait = f"Too many attempts. Try again in {seconds} s."
            if seconds >= 60:
                wait = f"Too many attempts. Try again in {-(-seconds // 60)} min."
            raise ValidationError(wait) from many
        self.confirm_login_allowed(self.user_cache)
        return dict(self.cleaned_data)


class Login(LoginView):
    """The first page of a visitor; in the embedded mode it lists the demo's users."""

    template_name = "frontend/login.html"
    authentication_form = PasswordForm
    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        """Begin the session, after the second factor for users with two-factor authentication."""
        from allauth.account.internal.flows.login import perform_password_login  # at the first sign-in, not the start
        from allauth.account.models import Login as Entering

        user = form.get_user()
        entering = Entering(user=user, redirect_url=self.get_success_url(), email_verification="none")
        answer: HttpResponse = perform_password_login(self.request, {"username": user.username}, entering)
        return answer

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Add the demo's people."""
        people: list[tuple[str, str]] = []
        if settings.EMBEDDED and presets.loaded() is not None:
            people = [(presets.ADMIN, "platform admin: everything, including quotas")]
            people += [(name, ROLES[role.value]) for name, role in presets.PEOPLE.items()]
        sso = {"name": settings.OIDC_NAME, "provider": PROVIDER} if settings.OIDC_ISSUER else None
        return {**super().get_context_data(**kwargs), "people": people, "sso": sso}
