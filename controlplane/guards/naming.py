"""Middleware: the names of workloads come into an answer here, for the one who gets it (queries/audit/naming.py)."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from controlplane.queries.audit import naming


def names(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Fill in what an answer mentions. Streams and answers that come later do it themselves (api/views)."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if isinstance(response, HttpResponse):
            content = response.content
            told = naming.document(content, request.user)
            if told is not content:
                response.content = told
                if response.has_header("Content-Length"):
                    response["Content-Length"] = str(len(told))
        return response

    return answer
