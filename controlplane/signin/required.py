"""Middleware: pages are for people who have signed in; a part of an open page is told so as it understands it."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse


class LoginRequired(LoginRequiredMiddleware):
    """Django's, but for what a page asks for by itself: 401 instead of a redirect.

    A script follows a redirect without noticing, and would show the page to sign in in the place of the part.
    """

    def handle_no_permission(self, request: HttpRequest, view_func: Callable[..., Any]) -> Any:
        """Refuse, or lead to the page to sign in."""
        if is_of_a_script(request):
            return HttpResponse(status=401, headers={"Cache-Control": "no-store"})
        return super().handle_no_permission(request, view_func)


def is_of_a_script(request: HttpRequest) -> bool:
    """Whether a script of a page asks: htmx, fetch or a stream; not somebody who goes to an address."""
    return request.headers.get("HX-Request") == "true" or request.headers.get("Sec-Fetch-Dest") == "empty"
