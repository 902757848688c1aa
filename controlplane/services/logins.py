"""Signing in with a password: slow for who guesses, and alike for known and unknown names."""

import contextlib
import hashlib
from dataclasses import dataclass

from django.contrib.auth import authenticate
from django.core.cache import cache

from controlplane.models import User
from controlplane.services import events
from controlplane.services.errors import Refused

MOST_FAILURES = 10  # of one name from one address within WINDOW
WINDOW_SECONDS = 300


@dataclass(frozen=True, slots=True)
class TooMany(Exception):  # noqa: N818 - reads as the fact it is
    """Too many failures; come again after so many seconds."""

    retry_after: int = WINDOW_SECONDS


def check(*, username: str, password: str, address: str) -> User:
    """The user with this password. Raises Refused 401, whether the name is unknown or the password wrong, or TooMany.

    Failures are counted by name and address, for names that do not exist as well, in this process's cache.
    """
    counter = "login:" + hashlib.sha256(f"{username.casefold()}\n{address}".encode()).hexdigest()
    if (cache.get(counter) or 0) >= MOST_FAILURES:
        raise TooMany
    user = authenticate(username=username, password=password)
    if isinstance(user, User):
        cache.delete(counter)
        return user
    cache.add(counter, 0, WINDOW_SECONDS)
    with contextlib.suppress(ValueError):  # it ran out in between
        cache.incr(counter)
    events.record(kind="LoginFailed", actor=username[:150], data={"address": address})
    raise Refused(401, "NotSignedIn", "", "The user name or the password is wrong.")
