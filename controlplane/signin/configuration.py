"""What django-allauth is told of the identity provider. Imports nothing of it: settings need this first."""

from typing import Any
from urllib.parse import urlsplit

PROVIDER = "sso"  # in the addresses: /sso/sso/login/, /sso/sso/callback/
APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
]


def origin(env: Any) -> list[str]:
    """Where the sign-in's form leads to, for the pages' security policy."""
    split = urlsplit(env.str("WEFT_OIDC_ISSUER", ""))
    return [f"{split.scheme}://{split.netloc}"] if split.netloc else []


def providers(env: Any, issuer: str, name: str) -> dict[str, Any]:
    """The one provider; none without an issuer."""
    one = {
        "provider_id": PROVIDER,
        "name": name,
        "client_id": env.str("WEFT_OIDC_CLIENT_ID", "weft"),
        "secret": env.str("WEFT_OIDC_CLIENT_SECRET", ""),
        "settings": {
            "server_url": issuer,
            "oauth_pkce_enabled": True,
            "scope": env.list("WEFT_OIDC_SCOPES", default=["openid", "profile", "email", "groups"]),
        },
    }
    return {"openid_connect": {"APPS": [one] if issuer else []}}
