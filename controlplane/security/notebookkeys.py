"""Keys of notebooks: the token that a notebook's server asks for, and what lets a browser through the proxy to it.

All follow from the installation's SECRET_KEY, so that web, workers and proxies agree without a table. The token is of
one notebook and stays for its life; a ticket is good for one notebook, one session and TICKET_SECONDS; a visit, kept in
a cookie of that notebook's own host, for as long as a session may last (docs/notebooks.md#the-proxy).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.utils.crypto import salted_hmac

from scheduler.model.workload import Kind

TOKEN_ENV = "JUPYTER_TOKEN"  # noqa: S105 - the variable's name, which Jupyter's server reads
TICKET, TICKET_SECONDS = "weft_ticket", 30  # its name in an address, and how long it is good for
_TICKET, _VISIT, _TOKEN = "weft.notebook.ticket", "weft.notebook.visit", "weft.notebook.token"


@dataclass(frozen=True, slots=True)
class Visit:
    """Who comes to which notebook, and by which session; its key itself is not told to anybody."""

    notebook: UUID
    user: int
    session: str  # a digest of its key


def token(notebook: UUID | str) -> str:
    """What a notebook's server asks for."""
    return salted_hmac(_TOKEN, str(notebook), algorithm="sha256").hexdigest()


def with_token(spec: Mapping[str, Any], notebook: UUID | str) -> dict[str, Any]:
    """The job file of its pods: a notebook's server gets its token, unless its job file gives it one."""
    given = spec.get("env") or {}
    if spec.get("type") != Kind.NOTEBOOK or TOKEN_ENV in given or _is_secret(spec):
        return dict(spec)
    return {**spec, "env": {**given, TOKEN_ENV: token(notebook)}}


def has_own_token(spec: Mapping[str, Any]) -> bool:
    """Whether the job file gives its server a token, which is then its user's to type."""
    return TOKEN_ENV in (spec.get("env") or {}) or _is_secret(spec)


def ticket(visit: Visit) -> str:
    """Signed; to be shown to the proxy at once."""
    return _signed(visit, _TICKET)


def cookie(visit: Visit) -> str:
    """Signed; to be kept by the browser."""
    return _signed(visit, _VISIT)


def by_ticket(text: str) -> Visit | None:
    """What a ticket says; None: it is none, or too old."""
    return _read(text, _TICKET, TICKET_SECONDS)


def by_cookie(text: str) -> Visit | None:
    """What a cookie says; None: it is none, or too old."""
    return _read(text, _VISIT, settings.SESSION_COOKIE_AGE)


def _signed(visit: Visit, salt: str) -> str:
    return signing.dumps([str(visit.notebook), visit.user, visit.session], salt=salt)


def _read(text: str, salt: str, seconds: int) -> Visit | None:
    try:
        notebook, user, session = signing.loads(text, salt=salt, max_age=seconds)
        return Visit(UUID(notebook), int(user), str(session))
    except (signing.BadSignature, ValueError, TypeError):
        return None


def _is_secret(spec: Mapping[str, Any]) -> bool:
    return any(one.get("env") == TOKEN_ENV for one in spec.get("secrets") or ())
