"""How views answer: whole pages and parts, and who may look."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.queries import access


def answer(request: HttpRequest, page: str, part: str, context: Mapping[str, Any]) -> HttpResponse:
    """The page, or for htmx only the part that is swapped."""
    is_part = request.headers.get("HX-Request") == "true" and request.headers.get("HX-Boosted") != "true"
    response = render(request, f"frontend/{'parts/' + part if is_part else page}.html", dict(context))
    response["Vary"] = "HX-Request, Cookie"
    return response


def seen_teams(request: HttpRequest) -> list[str] | None:
    """The teams whose workloads the viewer sees; None = all."""
    return None if access.is_platform_admin(request.user) else access.team_names(request.user)


def number(text: str | None, default: int, most: int = 10**6) -> int:
    """A whole number from a URL, or the default: an odd URL is no reason to fail."""
    return min(int(text), most) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def link(request: HttpRequest, **changes: object) -> str:
    """This address with some parameters changed."""
    kept = {name: value for name, value in request.GET.items() if name not in changes}
    query = urlencode({**kept, **{name: value for name, value in changes.items() if value not in (None, "", 0)}})
    return f"{request.path}?{query}" if query else request.path
