"""The second factor where we add to allauth: the key as a picture of our own address, and the rule for admins."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_GET

if TYPE_CHECKING:
    from controlplane.models import User

# All that an admin without a second factor may open: setting it up, once the password was given again, and leaving.
ENROLMENT = frozenset({"/two-steps/", "/two-steps/on/", "/two-steps/picture.svg", "/again/", "/login/", "/logout/"})
OPEN = ("/static/", "/healthz", "/readyz", "/metrics")  # what says nothing of its user


@require_GET
def picture(request: HttpRequest) -> HttpResponse:
    """The key that is being set up, for the app's camera; of one's own session only."""
    from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
    from allauth.mfa.adapter import get_adapter
    from allauth.mfa.totp.internal.auth import get_totp_secret

    raise_if_reauthentication_required(request, app="allauth.mfa")
    adapter = get_adapter()
    drawn = adapter.build_totp_svg(adapter.build_totp_url(request.user, get_totp_secret()))
    return HttpResponse(drawn, content_type="image/svg+xml", headers={"Cache-Control": "no-store"})


def requirement(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: platform admins set the second factor up first, where WEFT_ADMINS_NEED_TWO_STEPS says so."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if settings.ADMINS_NEED_TWO_STEPS and not _is_open(request.path_info) and _is_missing(request):
            from controlplane.api import errors
            from controlplane.services.accounts import two_factor

            if request.path_info.startswith("/api/"):
                return errors.answer(403, two_factor.NEEDED, code="EnrolmentNeeded")
            return redirect("mfa_activate_totp")
        return get_response(request)

    return middleware


def _is_open(path: str) -> bool:
    return path in ENROLMENT or path.startswith(OPEN)


def _is_missing(request: HttpRequest) -> bool:
    from controlplane.services.accounts import two_factor

    user = request.user
    if not user.is_authenticated:
        return False
    known: User = user
    return two_factor.is_missing(known)
