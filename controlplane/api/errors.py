"""Every refusal as problem+json (RFC 9457): type, title, status, code, detail, errors[{field, message}]."""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.api import missing
from controlplane.api.refusals import Faulty, Unavailable
from controlplane.jobspec.shapes import FieldError
from controlplane.jobspec.spec import SpecError
from controlplane.services.accounts.logins import TooMany
from controlplane.services.errors import Refused

CONTENT_TYPE = "application/problem+json"
BUSY_SECONDS = 1
FULL_SECONDS = 60  # a queue that is full does not empty sooner
CODES = {
    400: "Invalid",
    401: "NotSignedIn",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    413: "TooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "ServerError",
    503: "Unavailable",
}
log = structlog.get_logger(__name__)

Described = tuple[dict[str, Any], dict[str, str]]  # a problem document and the headers that go with it


def document(status: int, detail: str, *, code: str = "", errors: Iterable[FieldError] = ()) -> dict[str, Any]:
    """The problem document; `errors` defaults to the detail with no field."""
    listed = [{"field": e.field, "message": e.message} for e in errors] or [{"field": "", "message": detail}]
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code or CODES.get(status, HTTPStatus(status).phrase.replace(" ", "")),
        "detail": detail,
        "errors": listed,
    }


def answer(status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> HttpResponse:
    """The problem as a plain response, for where no view is involved."""
    body = json.dumps(document(status, detail, **more))
    return HttpResponse(body, status=status, content_type=CONTENT_TYPE, headers=dict(headers or {}))


def problem(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler: nothing leaves as anything but a problem, and never with a trace."""
    set_rollback()
    body, headers = _described(error, context)
    response = Response(body, status=body["status"], headers=headers)
    response.content_type = CONTENT_TYPE
    return response


def _described(error: Exception, context: Mapping[str, Any]) -> Described:
    match error:
        case Refused():
            wait = BUSY_SECONDS if error.code == "InFlight" else FULL_SECONDS if error.status == 429 else 0
            headers = {"Retry-After": str(wait)} if wait else {}
            fault = FieldError(error.field, error.message)
            return document(error.status, error.message, code=error.code, errors=[fault]), headers
        case SpecError() | Faulty():
            status = error.status if isinstance(error, Faulty) else 400
            return document(status, _summary(error.errors), errors=error.errors), {}
        case TooMany() | Unavailable() | OperationalError():
            return _later(error)
        case exceptions.APIException():
            return _of_framework(error)
        case Http404():
            return document(404, _missing(error, context)), {}
        case SuspiciousOperation():  # what Django itself refuses to read: thousands of parameters, a forged host
            return document(400, "The request cannot be read. Send fewer parameters, each as documented."), {}
        case PermissionDenied():
            return document(403, str(error) or "You may not do this. Ask an admin of the team."), {}
    return _unexpected(error, context)


def _missing(error: Http404, context: Mapping[str, Any]) -> str:
    """What the address names and is not there; what the view says, where the address names nothing."""
    match = getattr(context.get("request"), "resolver_match", None)
    told = missing.sentence(match.route, match.kwargs) if match else missing.NOTHING
    said = error.args[0] if error.args else ""
    return said if told == missing.NOTHING and said and isinstance(said, str) else told


def _later(error: TooMany | Unavailable | OperationalError) -> Described:
    """What passes by itself."""
    if isinstance(error, TooMany):
        message = f"Too many failed logins. Try again in {error.retry_after} s."
        return document(429, message), {"Retry-After": str(error.retry_after)}
    headers = {"Retry-After": str(BUSY_SECONDS)}
    if isinstance(error, Unavailable):
        return document(503, str(error), code=error.code), headers
    log.warning("database busy", error=str(error))
    return document(503, "The database is busy. Try again in a second.", code="Busy"), headers


def _summary(errors: tuple[FieldError, ...]) -> str:
    if len(errors) == 1:
        return errors[0].message
    return f"{errors[0].message} And {len(errors) - 1} more." if errors else "The request is invalid."


def _of_framework(error: exceptions.APIException) -> Described:
    sentences = {
        401: "Sign in: send `Authorization: Bearer TOKEN`; POST /api/v1/login gives a token.",
        404: missing.NOTHING,
        415: "Send JSON, with Content-Type: application/json.",
    }
    headers = {}
    if auth := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth
    wait = getattr(error, "wait", None)
    if wait:
        headers["Retry-After"] = f"{wait:.0f}"
    status = error.status_code
    said = error.detail if isinstance(error.detail, str) else str(error)
    fixed = sentences.get(status) if not isinstance(error, exceptions.AuthenticationFailed) else None
    return document(status, fixed or said), headers


def _unexpected(error: Exception, context: Mapping[str, Any]) -> Described:
    request = context.get("request")
    plain: HttpRequest | None = getattr(request, "_request", None)
    log.error("request failed", path=plain.path if plain else "", exc_info=error)
    got_request_exception.send(sender=None, request=plain)
    return document(500, "Something went wrong on the server; it has been noted. Try again later."), {}
