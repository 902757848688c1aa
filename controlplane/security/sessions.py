"""Browser sessions in our own table, so that one knows whose they are: to list them, and to end them all at once.

A session ends `SESSION_IDLE_SECONDS` after the last request that somebody made on purpose, and in any case
`SESSION_COOKIE_AGE` after the sign-in. Parts of an open page that fetch themselves again do not keep it alive.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.http import base36_to_int

NOTED = timedelta(minutes=1)  # seen_at is this coarse, so that looking at pages hardly ever writes
LOGIN_SESSION_KEY = "account_login"  # allauth's, of a sign-in that waits for its second step
BY_ITSELF = "X-Weft-Live"  # the header of requests that nobody made on purpose (frontend/static/frontend/live.js)


class SessionStore(db.SessionStore):
    """Django's database sessions, with their user, when they were used and from where."""

    model: Any  # ours; Django's is annotated with its own
    row: Any = None  # as loaded or last saved
    origin = ("", "")  # address and browser of this request

    @classmethod
    def get_model_class(cls) -> Any:
        """Our table."""
        from controlplane.models import Session

        return Session

    def create(self) -> None:
        """Begin a new session: at the first need, and again at the sign-in."""
        self.row = None
        super().create()

    def flush(self) -> None:
        """End the session; what follows is another one."""
        self.row = None
        super().flush()

    def create_model_instance(self, data: Any) -> Any:
        """The row to be saved."""
        now = timezone.now()
        began = self.row.created_at if self.row else now
        address, agent = (self.row.address, self.row.agent) if self.row else self.origin
        self.row = self.model(
            session_key=self._get_or_create_session_key(),  # type: ignore[attr-defined]
            session_data=self.encode(data),
            expire_date=began + timedelta(seconds=settings.SESSION_COOKIE_AGE),
            user_id=data.get(SESSION_KEY) or entering(data),
            created_at=began,
            seen_at=self.row.seen_at if self.row else now,
            address=address[:45],
            agent=agent[:200],
        )
        return self.row

    def touch(self) -> None:
        """Note that the session is in use."""
        now = timezone.now()
        if self.row is not None and self.row.user_id is not None and now - self.row.seen_at > NOTED:
            self.model.objects.filter(pk=self.row.pk).update(seen_at=now)
            self.row.seen_at = now  # in case the session is saved after this

    def _get_session_from_db(self) -> Any:
        self.row = super()._get_session_from_db()  # type: ignore[misc]
        if self.row is not None and self.row.seen_at <= idle_since(timezone.now()):
            self.row = self._session_key = None
        return self.row


def entering(data: Mapping[str, Any]) -> int | None:
    """Whose password was right and who is asked for the second step: what ends their sessions ends this as well."""
    pending = data.get(LOGIN_SESSION_KEY)
    shown = pending.get("user_pk") if isinstance(pending, dict) else None
    return base36_to_int(shown) if shown else None  # as allauth writes keys


def is_whole(session: Any) -> bool:
    """Whether somebody is signed in by it, and not on the way there."""
    return SESSION_KEY in SessionStore().decode(session.session_data)


def idle_since(now: datetime) -> datetime:
    """Sessions that were last used before this have run out."""
    return now - timedelta(seconds=settings.SESSION_IDLE_SECONDS)


def live() -> Any:
    """The sessions that have not run out, as a query."""
    now = timezone.now()
    return SessionStore.get_model_class().objects.filter(expire_date__gt=now, seen_at__gt=idle_since(now))


def named(user: int, digest: str) -> Any:
    """This person's session of this digest; None: there is none, or it has run out."""
    mine = live().filter(user_id=user)
    return next((one for one in mine if hmac.compare_digest(digest_of(one.session_key), digest)), None)


def keep_alive(user: int, digest: str) -> None:
    """Note that the session of this digest is in use, if it has not run out: by what somebody does in a notebook."""
    found, now = named(user, digest), timezone.now()
    if found is not None and found.seen_at < now - NOTED:
        SessionStore.get_model_class().objects.filter(pk=found.pk).update(seen_at=now)


def digest_of(session_key: str) -> str:
    """By which others name a session, who must not learn its key."""
    return hashlib.sha256(session_key.encode()).hexdigest()


def prune() -> None:
    """Delete the sessions that have run out."""
    table, now = SessionStore.get_model_class().objects, timezone.now()
    table.filter(expire_date__lt=now).delete()
    table.filter(seen_at__lte=idle_since(now)).delete()


def activity(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware, after Django's own: note who is there, but not for requests that a page makes by itself."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        store: Any = request.session
        store.origin = (request.META.get("REMOTE_ADDR", ""), request.headers.get("User-Agent", ""))
        response = get_response(request)
        if BY_ITSELF not in request.headers and not response.streaming:
            store.touch()
        return response

    return middleware
