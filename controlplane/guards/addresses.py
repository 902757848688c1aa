"""Middleware: an address that names nothing. No name holds a NUL, and Postgres takes none, not even to compare."""

from collections.abc import Callable

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from controlplane.api import errors, missing


def without_nul(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """404, as a problem for programs and as a page for people."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if "\x00" not in request.path_info:
            return get_response(request)
        if request.path_info.startswith("/api/"):
            return errors.answer(404, missing.NOTHING)
        raise Http404

    return answer
