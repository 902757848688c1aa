"""How views answer: whole pages and parts, and what the viewer may see."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.queries.accounts import access
from controlplane.queries.reports import dashboard
from controlplane.queries.tenancy import teams
from controlplane.services.intake.ownership import Hand

if TYPE_CHECKING:
    from controlplane.models import User

T = TypeVar("T")


def answer(request: HttpRequest, page: str, part: str, context: Mapping[str, Any]) -> HttpResponse:
    """The page, or for htmx only the part that is swapped."""
    response = render(request, f"frontend/{'parts/' + part if is_part(request) else page}.html", dict(context))
    response["Vary"] = "HX-Request, Cookie"
    return response


def is_part(request: HttpRequest) -> bool:
    """Whether htmx asks for a part that it swaps."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-Boosted") != "true"


def is_later(request: HttpRequest, *, is_large: bool) -> bool:
    """Whether to answer with the page alone, which fetches its large part itself; `?whole=1` asks for all at once."""
    return is_large and not is_part(request) and request.GET.get("whole") != "1"


def seen_teams(request: HttpRequest) -> list[str] | None:
    """The teams whose workloads the viewer sees; None = all."""
    return None if access.is_platform_admin(request.user) else teams_for(request, access.Verb.READ)


def teams_for(request: HttpRequest, verb: access.Verb) -> list[str]:
    """The teams in which the viewer may do this."""
    return sorted(name for name, role in roles(request).items() if access.allows(role, verb))


def roles(request: HttpRequest) -> dict[str, Any]:
    """The viewer's role by team."""
    return once(request, "roles", lambda: access.roles(request.user))


def clock(request: HttpRequest) -> dashboard.Clock:
    """The cluster's clock: one moment for the whole page."""
    return once(request, "clock", dashboard.clock)


def team_rows(request: HttpRequest) -> tuple[teams.TeamRow, ...]:
    """Every team, as several parts of a page show them."""
    return once(request, "team_rows", teams.rows)


def hand(request: HttpRequest) -> Hand:
    """By whose hand the viewer changes workloads."""
    return Hand.ADMIN if access.is_platform_admin(request.user) else Hand.PERSON


def signed_in(request: HttpRequest) -> "User":
    """The user of a view that asks for one."""
    assert request.user.is_authenticated  # noqa: S101 - login_required has seen to it
    return request.user


def once(request: HttpRequest, name: str, make: Callable[[], T]) -> T:
    """Ask the database once a request."""
    kept: dict[str, Any] = request.__dict__.setdefault("weft_kept", {})
    if name not in kept:
        kept[name] = make()
    found: T = kept[name]
    return found


def number(text: str | None, default: int, most: int = 10**6) -> int:
    """A whole number from a URL, or the default: an odd URL is no reason to fail."""
    return min(int(text), most) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def link(request: HttpRequest, **changes: object) -> str:
    """This address with some parameters changed."""
    kept = {name: value for name, value in request.GET.items() if name not in changes}
    query = urlencode({**kept, **{name: value for name, value in changes.items() if value not in (None, "", 0)}})
    return f"{request.path}?{query}" if query else request.path
