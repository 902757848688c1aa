"""For load balancers, supervisors and Prometheus: no sign-in, and no data but what they need."""

import hmac
import math
import time

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from controlplane.api import metrics
from controlplane.queries.reports import health
from controlplane.security import limits

ASKED = 10.0  # times a second that it is looked whether all works
FRESH = 1.0  # s for which what was found answers requests that come more often
_found: dict[bool, tuple[float, dict[str, str]]] = {}  # by whether loops are left out: when, and what was wrong


@login_not_required
@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """Tell that this process answers."""
    return JsonResponse({"status": "ok"})


@login_not_required
@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Tell whether all works: the database answers and has our tables, and every loop makes progress.

    `?exclude=loops` asks about this process alone. That is for a load balancer: submissions are accepted, and kept,
    while no worker runs.
    """
    checks = _lately(settings.EMBEDDED or request.GET.get("exclude") == "loops")
    return _unready(checks) if checks else JsonResponse({"status": "ok"})


@login_not_required
@require_safe
@never_cache
def prometheus(request: HttpRequest) -> HttpResponse:
    """What Prometheus scrapes. In production it shows METRICS_TOKEN; without one set there is nothing here.

    Embedded, anybody may read it, but services are named to those who show the token only.
    """
    is_open = not _may_scrape(request)
    if not settings.EMBEDDED and is_open:
        return HttpResponse(status=401 if settings.METRICS_TOKEN else 404)
    try:
        text = generate_latest(metrics.registry(is_open=is_open))
    except DatabaseError:
        return HttpResponse(status=503)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


def _lately(without_loops: bool) -> dict[str, str]:
    """What is wrong; as found within the last second, when it is asked for more often than supervisors do.

    No request is refused here: a supervisor would take a refusal for an outage. So strangers may ask without end.
    """
    now = time.monotonic()
    at, checks = _found.get(without_loops, (-math.inf, {}))
    if now - at < FRESH and limits.of_process().bucket("readyz", ASKED, ASKED).take(now=now):
        return checks
    checks = _checked(without_loops)
    _found[without_loops] = (time.monotonic(), checks)
    return checks


def _checked(without_loops: bool) -> dict[str, str]:
    try:
        health.reach()
        return {} if without_loops else _stalled()
    except DatabaseError:
        return {"database": "does not answer"}


def _unready(checks: dict[str, str]) -> JsonResponse:
    answer = JsonResponse({"status": "unready", "checks": checks}, status=503)
    answer._has_been_logged = True  # type: ignore[attr-defined]  # the answer to a question is no error of ours, though Django logs every 503
    return answer


def _stalled() -> dict[str, str]:
    return {
        f"loop {loop.name}": "never came round" if loop.age_seconds is None else f"stalled for {loop.age_seconds:.0f} s"
        for loop in health.loops()
        if loop.is_stalled
    }


def _may_scrape(request: HttpRequest) -> bool:
    shown = request.headers.get("Authorization", "").encode()
    return bool(settings.METRICS_TOKEN) and hmac.compare_digest(shown, f"Bearer {settings.METRICS_TOKEN}".encode())
