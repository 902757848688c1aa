"""System checks: what is open without sign-in is written down as such."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from controlplane.security import authorization


@register(Tags.security)
def open_views(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Every view asks for a sign-in (LoginRequiredMiddleware), declares its permission (the API), or is listed."""
    return open_among(authorization.routes(), authorization.rules())


def open_among(routes: Any, rules: Sequence[authorization.Rule]) -> list[CheckMessage]:
    """An error for each address that anybody may call and no line says so."""
    from controlplane.api.endpoint import View

    found: list[CheckMessage] = []
    for route in routes:
        declares = issubclass(getattr(route.view, "view_class", object), View)
        asks = getattr(route.view, "login_required", True)
        listed = any(rule.is_about(route.address) for rule in rules)
        if not (declares or asks or listed):
            message = f"{route.address} is open without signing in, and no line of authorization.txt says so."
            found.append(Error(message, hint="Remove login_not_required, or add its line.", id="weft.E001"))
    return found
