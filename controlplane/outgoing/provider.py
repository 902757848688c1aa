"""Asking the identity provider whether somebody still has an account there, by the refresh token of their sign-in.

RFC 6749, section 6. What it answers is not believed further than that: at most 64 KiB are read, within seconds.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings

WAITS = (3.0, 5.0)  # s: for the connection, between two parts of the answer
MAX_BYTES = 64 * 1024
# What it says of a grant that is over. Other refusals are about us (invalid_client) or the moment.
OVER = frozenset({"invalid_grant", "access_denied", "account_disabled"})


class Account(StrEnum):
    """What the provider says of a person."""

    KNOWN = "known"
    DROPPED = "dropped"
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of the account; `token` is the refresh token to ask with next time, empty where it is the same."""

    account: Account
    token: str = ""
    error: str = ""


def ask(token: str) -> Answer:
    """Ask once; whatever goes wrong is an answer."""
    import requests  # only installations with single sign-on load it

    try:
        known = _document("GET", f"{settings.OIDC_ISSUER}/.well-known/openid-configuration")[1]
        status, body = _document("POST", str(known["token_endpoint"]), _form(token, known))
    except (requests.RequestException, ValueError, KeyError) as error:
        return Answer(Account.NO_ANSWER, error=type(error).__name__)
    if status == 200 and body.get("access_token"):
        return Answer(Account.KNOWN, str(body.get("refresh_token") or ""))
    said = str(body.get("error", status))[:40]
    is_over = status in (400, 401, 403) and said in OVER
    return Answer(Account.DROPPED if is_over else Account.NO_ANSWER, error=said)


def _form(token: str, known: dict[str, Any]) -> dict[str, Any]:
    """What is sent: the client's secret in the body if the provider takes it there, else in the header."""
    (app,) = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    data = {"grant_type": "refresh_token", "refresh_token": token}
    if "client_secret_post" in known.get("token_endpoint_auth_methods_supported", ()):
        return {"data": {**data, "client_id": app["client_id"], "client_secret": app["secret"]}}
    return {"data": data, "auth": (app["client_id"], app["secret"])}


def _document(method: str, url: str, more: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of an answer. Raises RequestException, ValueError."""
    import requests

    given = more or {}
    with requests.request(method, url, timeout=WAITS, allow_redirects=False, stream=True, **given) as answer:
        raw = answer.raw.read(MAX_BYTES + 1, decode_content=True)
        if len(raw) > MAX_BYTES:
            raise ValueError("too large")
        found = json.loads(raw)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return answer.status_code, found
