"""Middleware: nobody takes the server from the others. Who asks too often is answered 429 with Retry-After.

Budgets are by token or session, by address, and, for what is dear to answer, once more by token or session. An address
without a token or session has a smaller one. How many streams somebody has open, and how many dear requests at once,
is counted over all processes. All addresses of a /64 of IPv6 are one.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from controlplane import atonce, limits
from controlplane.api import errors
from controlplane.limits import Budget
from controlplane.network import network_of

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
        who, address = caller(request), network_of(request.META.get("REMOTE_ADDR") or "")
        wait = self._limits.take(self._address, address)
        wait = wait or self._limits.take(self._who if who else self._nobody, who or address)
        if wait:
            return refused(request, wait)
        request.weft_caller = who or address  # type: ignore[attr-defined]
        try:
            return self._streamed(request, who or address)
        finally:
            if getattr(request, "weft_is_dear", False):
                self._open.leave("dear", who or address)

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


def caller(request: HttpRequest) -> str:
    """Whose budget it is: a digest of the token or session shown, right or wrong; "" for neither."""
    shown = request.META.get("HTTP_AUTHORIZATION") or request.COOKIES.get(settings.SESSION_COOKIE_NAME) or ""
    return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:32] if shown else ""


def refused(request: HttpRequest, wait: int) -> HttpResponse:
    """429, as a problem for programs and as a page for people."""
    headers = {"Retry-After": str(wait)}
    message = f"Too many requests at once. Try again in {wait} s."
    if request.path.startswith("/api/"):
        return errors.answer(429, message, headers=headers)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(message, status=429, headers=headers, content_type="text/plain")
    response = render(request, "429.html", {"wait": wait}, status=429)
    response["Retry-After"] = str(wait)
    return response
