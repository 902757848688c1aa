"""Middleware: what browsers are told to refuse. The policies are in the settings; docs/security.md says why."""

from functools import lru_cache

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

PERMISSIONS = "accelerometer=(), camera=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()"


class SecurityHeaders(CSPMiddleware):
    """The content security policy of each address, and the headers that are the same everywhere.

    A policy with a nonce (`request.csp_nonce` in a template) is built for its answer; all others are built once.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Add what the view has not said itself."""
        nonce: str | None = getattr(request, "_csp_nonce", None)
        if HEADER not in response:
            response[HEADER] = _built(place(request.path_info), nonce) if nonce else _fixed(place(request.path_info))
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response


def place(path: str) -> str:
    """Which policy holds at an address: the longest prefix that has one; "" is the pages' own."""
    return max((one for one in settings.CSP_EXCEPTIONS if path.startswith(one)), key=len, default="")


@lru_cache(maxsize=64)
def _fixed(where: str) -> str:
    return _built(where, None)


def _built(where: str, nonce: str | None) -> str:
    pages = settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]
    return str(build_policy(config={**pages, **settings.CSP_EXCEPTIONS.get(where, {})}, nonce=nonce))
