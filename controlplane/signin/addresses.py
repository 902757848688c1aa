"""Addresses of single sign-on and of the second factor. Their views are loaded when they are first asked for.

That spares the start a tenth of a second. The names are allauth's, which reverses them; what it has beside these
(signing up, e-mail addresses, connections) is not served.
"""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponseBase
from django.urls import path
from django.utils.module_loading import import_string
from django.views.generic import RedirectView


def late(dotted: str, *, is_open: bool = False) -> Any:
    """A view by its dotted name; an open one is part of signing in, so nobody is signed in yet."""

    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        answer: HttpResponseBase = import_string(dotted)(request, *args, **kwargs)
        return answer

    view.__name__ = view.__qualname__ = dotted.rsplit(".", 1)[1]
    view.__doc__ = dotted
    return login_not_required(view) if is_open else view


def _to(name: str) -> Any:
    return login_not_required(RedirectView.as_view(pattern_name=name, query_string=True))


urlpatterns = [
    path(
        "sso/<slug:provider_id>/login/",
        late("controlplane.signin.oidc.login", is_open=True),
        name="openid_connect_login",
    ),
    path(
        "sso/<slug:provider_id>/callback/",
        late("controlplane.signin.oidc.callback", is_open=True),
        name="openid_connect_callback",
    ),
    path("two-steps/", late("allauth.mfa.base.views.authenticate", is_open=True), name="mfa_authenticate"),
    path("two-steps/on/", late("allauth.mfa.totp.views.activate_totp"), name="mfa_activate_totp"),
    path("two-steps/off/", late("allauth.mfa.totp.views.deactivate_totp"), name="mfa_deactivate_totp"),
    path(
        "two-steps/codes/", late("allauth.mfa.recovery_codes.views.view_recovery_codes"), name="mfa_view_recovery_codes"
    ),
    path("two-steps/picture.svg", late("controlplane.signin.two_steps.picture"), name="two_steps_picture"),
    path(
        "two-steps/codes/new/",
        late("allauth.mfa.recovery_codes.views.generate_recovery_codes"),
        name="mfa_generate_recovery_codes",
    ),
    path("again/", late("allauth.account.views.reauthenticate"), name="account_reauthenticate"),
    path("again/code/", late("allauth.mfa.base.views.reauthenticate"), name="mfa_reauthenticate"),
    # Where allauth sends people:
    path("accounts/login/", _to("frontend:login"), name="account_login"),
    path("accounts/inactive/", _to("frontend:login"), name="account_inactive"),
    path("accounts/settings/", _to("frontend:settings"), name="mfa_index"),
]
