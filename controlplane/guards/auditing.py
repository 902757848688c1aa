"""Middleware: each request that changes something, or tries to, leaves one row in the audit log.

One that acts on several workloads leaves a row for each of them, as if it had been one request each.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog
from django.db import DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from controlplane.services.audit import auditlog, context, strangerrows
from controlplane.services.audit.auditlog import Asked
from controlplane.services.audit.context import AuditContext

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
DENIED = frozenset({401, 403})
DONE = range(400)
# POST because of what they take; they write nothing, and pages send them while somebody types or drags.
ONLY_READ = frozenset(
    {
        "api/v1/workloads:diff",
        "api/v1/workloads:preview",
        "submit/preview",
        "teams/<str:team>/quotas/<str:pool>/preview",
        "queue/try",
    }
)
PREFIX = 10  # characters of a token that may be known

log = structlog.get_logger(__name__)


class AuditLog:
    """Write the row once the answer is there: the change is committed by then, and so is its refusal.

    A request that only reads leaves a row if it was denied to somebody who is signed in or showed a token, and if it
    wrote an event all the same (a sign-in by redirect). If the row cannot be written, it is in the process's log.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, then record."""
        by_session = request.method not in SAFE and "HTTP_AUTHORIZATION" not in request.META
        before = _user(request) if by_session else ""  # signing out leaves nobody
        with context.followed() as done:
            response = self._get_response(request)
        if is_recorded(request, response.status_code, done):
            asked = _asked(request, response.status_code, before)
            for part in done.parts:
                # What was done to one stays, whatever became of the others and of the answer.
                status = part.status or (asked.status if asked.status in DONE else 200)
                _record(replace(asked, status=status, team=part.team, subject=part.name), part.events)
            if done.events or not done.parts:
                _record(asked, done.events)
        return response


def is_recorded(request: HttpRequest, status: int, done: AuditContext) -> bool:
    """Whether this request leaves a row."""
    if done.events or done.parts:
        return True
    if request.method not in SAFE:
        return _route(request) not in ONLY_READ or status in DENIED
    return status in DENIED and (bool(_user(request)) or "HTTP_AUTHORIZATION" in request.META)


def _record(asked: Asked, events: Sequence[Any]) -> None:
    try:
        if (left_out := strangerrows.to_sum_up()) and not auditlog.sum_up(left_out):
            strangerrows.put_back(left_out)
        is_counted = auditlog.is_of_stranger(asked, events)
        if not (is_counted and strangerrows.is_closed()) and not auditlog.record(asked, events):
            strangerrows.close()
    except (DatabaseError, RuntimeError) as error:
        changed = auditlog.changes(events)
        log.critical("audit log row not written", asked=str(asked), changes=changed, error=str(error))


def _asked(request: HttpRequest, status: int, before: str) -> Asked:
    match = request.resolver_match
    given = match.kwargs if match else {}
    route = _route(request)
    team = str(given.get("team") or (given.get("name", "") if route.startswith("api/v1/teams/") else ""))
    return Asked(
        actor=_user(request) or before,
        token=_token(request),
        address=request.META.get("REMOTE_ADDR") or "",
        method=request.method or "",
        route=route,
        path=_path(request),
        status=status,
        team=team,
    )


def _path(request: HttpRequest) -> str:
    """The address; a part of it that is a credential, such as that of a link in a mail, is left out."""
    match = request.resolver_match
    secret = str(match.kwargs.get("token", "")) if match else ""
    return request.path.replace(secret, "***") if secret else request.path


def _route(request: HttpRequest) -> str:
    """The address with its parameters as names; empty for one that is none."""
    return request.resolver_match.route if request.resolver_match else ""


def _user(request: HttpRequest) -> str:
    """Who is signed in, by token or session; "" for nobody."""
    user: Any = getattr(request, "user", None)
    return str(user.get_username()) if user is not None and user.is_authenticated else ""


def _token(request: HttpRequest) -> str:
    """How the token begins that was shown, right or wrong."""
    secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2]
    return secret[:PREFIX] if secret.startswith("weft_") else ""
