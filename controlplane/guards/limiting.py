"""Middleware: nobody takes the server from the others. Who asks too often is answered 429 with Retry-After.

Budgets are by token or session, by address, and, for what is dear to answer, once more by token or session. An address
without a token or session has a smaller one. A token or session has a budget of its own once it was right: until then,
and where it is wrong, its address pays. Tokens that are not known yet, from addresses where nobody is signed in, share
one more, so that strangers do not take the time of people however many addresses they have; one that turns out right
takes nothing of it. How many streams somebody has open, and how many dear requests at once, is counted over all
processes. All addresses of a /64 of IPv6 are one.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.functional import SimpleLazyObject

from controlplane.api import errors
from controlplane.security import atonce, known, limits
from controlplane.security.limits import Bucket, Budget
from controlplane.security.network import network_of
from controlplane.services.accounts import logins

EXEMPT = ("/healthz", "/readyz", "/metrics")  # asked by machines that would take a 429 for an outage
# Whose answer costs as much as hundreds of others: reports over months, files, a search for what would help.
DEAR = frozenset(
    {
        "api/docs",
        "api/v1/audit-log",
        "api/v1/schema",
        "api/v1/simulations",
        "api/v1/usage",
        "api/v1/workloads/<uuid:uid>/eta",
        "api/v1/workloads/<uuid:uid>/explanation",
        "api/v1/workloads/<uuid:uid>/logs",
        "api/v1/workloads:act",
        "api/v1/workloads:apply",
        "api/v1/workloads:batch",
        "api/v1/workloads:preview",
        "submit/preview",
        "usage/",
    }
)
DEAR_PREFIXES = ("api/v1/reports/",)
THEMES = ("light", "dark")
SENT_AWAY = frozenset({301, 302, 401, 403})  # the answers to a token or session that is wrong
SIGN_IN = frozenset({"/login/", "/api/v1/login"})
TOO_MANY = "Too many requests at once. Try again in {wait} s."
WRONG = 4  # what a wrong token costs its address beside the request: it was looked up, and noted
# s; what strangers have saved up together: a pipeline that begins sends dozens of requests with a token not seen yet.
AT_ONCE = 10.0


class RateLimit:
    """Refuse before anything is looked up: a refusal costs neither a statement nor a password check."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        rate = settings.RATE_LIMITS
        self._limits = limits.of_process()
        self._who = Budget("who", rate["user"])
        self._address = Budget("address", rate["address"])
        self._nobody = Budget("nobody", rate["anonymous"])
        self._dear = Budget("dear", rate["expensive"])
        self._open = atonce.of_process()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or send away."""
        if request.path in EXEMPT:
            return self._get_response(request)
        shown, address = caller(request), network_of(request.META.get("REMOTE_ADDR") or "")
        who = shown if shown in known.credentials else ""
        is_stranger = not who and has_token(request) and address not in known.addresses
        wait = self._limits.take(self._address, address)
        wait = wait or self._limits.take(self._who if who else self._nobody, who or address)
        wait = wait or (strangers().take() if is_stranger else 0)
        if request.method == "POST" and request.path in SIGN_IN:
            wait = wait or logins.closed_to(address)
        if wait:
            return refused(request, wait)
        request.weft_caller = who or address  # type: ignore[attr-defined]
        try:
            response = self._streamed(request, who or address)
        finally:
            if getattr(request, "weft_is_dear", False):
                self._open.leave("dear", who or address)
        if shown:
            self._learn(request, response, shown, was_known=bool(who), is_stranger=is_stranger)
        return response

    def _learn(
        self, request: HttpRequest, response: HttpResponseBase, shown: str, *, was_known: bool, is_stranger: bool
    ) -> None:
        """Know a credential that was right, which pays for itself from then on; charge the address for a wrong one."""
        address = network_of(request.META.get("REMOTE_ADDR") or "")
        if is_signed_in(request):
            known.credentials.note(shown)
            known.addresses.note(address)
            if not was_known:
                self._limits.give(self._nobody, address)
                self._limits.take(self._who, shown)
            if is_stranger:
                strangers().give()
        elif response.status_code in SENT_AWAY:
            known.credentials.forget(shown)
            if has_token(request):
                self._limits.take(self._nobody, address, WRONG)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """Send away who asks too much of what is dear to answer, now that the address is known."""
        match = request.resolver_match
        route = match.route if match else ""
        if route not in DEAR and not route.startswith(DEAR_PREFIXES):
            return None
        who = getattr(request, "weft_caller", "")
        wait = self._limits.take(self._dear, who)
        if wait:
            return refused(request, wait)
        if not self._open.enter("dear", who, settings.EXPENSIVE_AT_ONCE):
            return refused(request, 1)
        request.weft_is_dear = True  # type: ignore[attr-defined]
        return None

    def _streamed(self, request: HttpRequest, who: str) -> HttpResponseBase:
        """The answer; a stream is counted as long as it is open."""
        response = self._get_response(request)
        if not (response.streaming and getattr(response, "is_async", False)):
            return response
        if not self._open.enter("stream", who, settings.STREAMS_AT_ONCE):
            response.close()
            return refused(request, 10)
        response._resource_closers.append(lambda: self._open.leave("stream", who))  # type: ignore[attr-defined]
        return response


def strangers() -> Bucket:
    """What tokens that are not known yet have together, in this process."""
    rate = settings.RATE_LIMITS["strangers"]
    return limits.of_process().bucket("strangers", rate, rate * AT_ONCE)


def is_signed_in(request: HttpRequest) -> bool:
    """Whether a user was found by what was shown; looks for none itself, which would cost a statement."""
    user: Any = request.__dict__.get("user")
    if user is None or (isinstance(user, SimpleLazyObject) and not hasattr(request, "_cached_user")):
        return False
    return bool(user.is_authenticated)


def has_token(request: HttpRequest) -> bool:
    """Whether a token is shown, right or wrong, where one is looked at."""
    return request.path.startswith("/api/") and bool(request.META.get("HTTP_AUTHORIZATION"))


def caller(request: HttpRequest) -> str:
    """A digest of the token or session shown, right or wrong; "" for neither. Pages know sessions only."""
    token = request.META["HTTP_AUTHORIZATION"] if has_token(request) else ""
    return digest(token) if token else _digest(request.COOKIES.get(settings.SESSION_COOKIE_NAME) or "")


def digest(header: str) -> str:
    """The same for a token however its scheme is written: `Bearer`, `bearer` and 62 more would be as many budgets."""
    scheme, _, secret = header.partition(" ")
    return _digest(f"{scheme.casefold()} {secret}")


def _digest(shown: str) -> str:
    return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:32] if shown else ""


def refused(request: HttpRequest, wait: int) -> HttpResponse:
    """429, as a problem for programs and as a page for people."""
    response = _refusal(request, wait)
    # Django would write a line for each, so that strangers filled the disk with what they may not ask.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _refusal(request: HttpRequest, wait: int) -> HttpResponse:
    headers = {"Retry-After": str(wait)}
    message = TOO_MANY.format(wait=wait)
    if request.path.startswith("/api/"):
        return errors.answer(429, message, headers=headers)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(message, status=429, headers=headers, content_type="text/plain")
    theme = request.COOKIES.get("weft_theme", "")
    return HttpResponse(_page(wait, theme if theme in THEMES else ""), status=429, headers=headers)


@lru_cache(maxsize=256)
def _page(wait: int, theme: str) -> str:
    """The page of a refusal, without what pages know otherwise: that would be a statement."""
    return render_to_string("429.html", {"wait": wait, "theme": theme})
