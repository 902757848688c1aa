"""How a request is authenticated: a bearer token, or the session of the pages (with CSRF)."""

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from controlplane.services.accounts import tokens, two_factor

_FORM = "Write it as `Authorization: Bearer TOKEN`."


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer weft_...`."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return user and token; None without the header, so that a session may do."""
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer" or not secret or " " in secret:
            raise exceptions.AuthenticationFailed(f"The Authorization header has an unknown form. {_FORM}")
        token = tokens.owner(secret)
        if token is None:
            raise exceptions.AuthenticationFailed(
                "The token is unknown, expired or revoked. POST /api/v1/login gives a new one."
            )
        if two_factor.is_missing(token.user):
            raise exceptions.AuthenticationFailed(two_factor.NEEDED)
        token.user.via = token
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Make a missing sign-in a 401."""
        return 'Bearer realm="weft"'


class SessionAuthentication(authentication.SessionAuthentication):
    """The pages' session cookie; what changes something needs the CSRF token."""


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes tokens."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return a bearer scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A token of POST /login or /tokens."}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes sessions."""

    target_class = SessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return a cookie scheme."""
        name = settings.SESSION_COOKIE_NAME
        return {"type": "apiKey", "in": "cookie", "name": name, "description": "The session of the pages."}
