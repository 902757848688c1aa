"""Signing in with a password: slow for who guesses, and alike for known and unknown names.

Each try is counted before the password is looked at, so that many at once are no way around it, and in the database, so
that neither a restart nor a second process is. What is over a limit costs no statement: this process remembers it for
some seconds.

Looking at a password is meant to take long, so strangers could take all the time there is by trying names from many
addresses. All addresses where nobody is signed in share a small number of tries that fail, one at a time.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import authenticate
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from controlplane.models import SignInFailures, User
from controlplane.models.upserts import count_failure
from controlplane.security import known, limits
from controlplane.security.known import Lately
from controlplane.security.limits import Bucket
from controlplane.security.network import network_of
from controlplane.services.accounts import two_factor
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now

MAX_FAILURES = 10  # of one name from one address within WINDOW
MAX_OF_NAME = 50  # from all addresses together: a name is not guessed by a crowd, nor locked by one neighbour
MAX_OF_ADDRESS = 200  # for all names together: an office behind one address is larger than a person
SECOND_STEP_FAILED, AGAIN_FAILED = "SecondStepFailed", "ReauthenticationFailed"  # kinds of events
WINDOW = timedelta(seconds=300)
REMEMBERED = 5.0  # s for which a limit that is reached is not asked for again
STRANGERS_AT_ONCE = 25.0  # s; what addresses where nobody is signed in have saved up together
LOOKED_AT_ONCE = 1  # passwords of strangers; each holds one of the few threads that answer
BUSY_SECONDS = 2  # after which a stranger is to come again while so many are looked at

_closed = Lately()  # limits that are reached, until they are open again
_asked = Lately(seconds=REMEMBERED)  # those that the database was asked for just now
_looking = threading.BoundedSemaphore(LOOKED_AT_ONCE)


class TooMany(Exception):  # noqa: N818 - reads as the fact it is
    """Too many failures; come again after so many seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


def check(*, username: str, password: str, address: str) -> User:
    """The user with this password. Raises Refused 401, whether the name is unknown or the password wrong, or TooMany.

    Names that do not exist are counted as well.
    """
    keys = _limits(username, address)
    if wait := max((_closed.left(key) for key in keys if key in _asked), default=0.0):
        raise TooMany(round(wait) + 1)
    with _turn(network_of(address)) as turn:
        _count(keys)
        user = authenticate(username=username, password=password)
        if isinstance(user, User):
            _forgive(keys)
            turn.was_right()
            return user
    events.record(kind="LoginFailed", actor=_somebody(username), data={"address": address})
    raise Refused(401, "NotSignedIn", "", "The user name or the password is wrong.")


def closed_to(network: str) -> int:
    """Seconds until a try from this network would be looked at at all, whatever the name; 0 if it would be now.

    Known without a statement, so that a crowd is sent away at no price.
    """
    key = _key("address", network)
    if key in _asked:
        return round(_closed.left(key)) + 1
    if network in known.addresses:
        return 0
    if not _looking.acquire(blocking=False):
        return BUSY_SECONDS
    _looking.release()
    return _strangers().wait()


def check_both(*, username: str, password: str, code: str, address: str) -> User:
    """The same, and the code of the second factor for users who have set one up. Raises as `check` does."""
    user = check(username=username, password=password, address=address)
    if not two_factor.is_on(user):
        if two_factor.is_missing(user):
            events.record(kind="LoginFailed", actor=user.username, data={"address": address, "step": "enrolment"})
        two_factor.require(user)
        return user
    if not code:
        message = f"{username} uses two-factor authentication. Send the code of the authenticator app as well."
        raise Refused(401, "CodeNeeded", "code", message)
    right = count_step(user)
    if not (two_factor.accepts(user, code) and is_first_use(user, code)):
        note_failure(user=user, kind=SECOND_STEP_FAILED)
        raise Refused(401, "CodeWrong", "code", "The code is wrong or was used before. Wait for the next one.")
    right()
    return user


def count_step(user: User) -> Callable[[], None]:
    """Count a try at a second factor, or at giving password or code again. Raises TooMany; call what returns if right.

    One count by whatever door, in the database, as for passwords.
    """
    keys = {_key("code", user.username): MAX_FAILURES}
    _count(keys)
    return lambda: _forgive(keys)


def is_first_use(user: User, code: str) -> bool:
    """Take a code that is right; tell whether it is its first use, over all processes. Kept longer than one is good.

    allauth remembers it in the process that saw it, for 30 s of the 90 for which an app's code is good.
    """
    plain = "".join(letter for letter in code.casefold() if letter.isalnum())
    try:
        _count({_key("used", str(user.pk), plain): 1})
    except TooMany:
        return False
    return True


def confirm(*, user: User, password: str, address: str) -> None:
    """Whether somebody who is signed in knows their own password; counted and refused as a sign-in is."""
    try:
        check(username=user.username, password=password, address=address)
    except Refused as refused:
        raise Refused(422, "WrongPassword", "present", "That is not your present password.") from refused


def note_failure(*, user: User, kind: str) -> None:
    """Note that a second factor of this user, or giving the password or a code again, failed."""
    events.record(kind=kind, actor=user.username, data={"user": user.username})


def _somebody(username: str) -> str:
    """The name, if somebody has it: what else is typed there may be a password, and logs keep it for good."""
    return User.objects.filter(username=username[:150]).values_list("username", flat=True).first() or ""


def prune() -> None:
    """Forget failures that count no longer."""
    SignInFailures.objects.filter(until__lte=Now()).delete()
    _asked.forget_all()


def forget() -> None:
    """Forget what this process remembers beside the database: for tests, each of which is a day of its own."""
    _closed.forget_all()
    _asked.forget_all()


class _Turn:
    """One try: whether it was taken from what strangers have together, and put back."""

    def __init__(self, bucket: Bucket | None) -> None:
        self._bucket = bucket

    def was_right(self) -> None:
        if self._bucket:
            self._bucket.give()


@contextmanager
def _turn(network: str) -> Iterator[_Turn]:
    """Look at a password now; at few of strangers at a time. Raises TooMany."""
    if network in known.addresses:
        yield _Turn(None)
        return
    if not _looking.acquire(blocking=False):
        raise TooMany(BUSY_SECONDS)
    try:
        if wait := _strangers().take():
            raise TooMany(wait)
        yield _Turn(_strangers())
    finally:
        _looking.release()


def _strangers() -> Bucket:
    rate = settings.RATE_LIMITS["sign_ins"]
    return limits.of_process().bucket("sign-ins", rate, rate * STRANGERS_AT_ONCE)


def _limits(username: str, address: str) -> dict[str, int]:
    name, address = username.casefold(), network_of(address)
    return {
        _key("both", name, address): MAX_FAILURES,
        _key("name", name): MAX_OF_NAME,
        _key("address", address): MAX_OF_ADDRESS,
    }


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@transaction.atomic
def _count(keys: dict[str, int]) -> None:
    """Count a try against each limit. Raises TooMany, and counts no further, where one is reached."""
    now = database_now()
    for key, most in sorted(keys.items()):  # in one order, so that two tries do not wait for each other
        count_failure(key, now=now, until=now + WINDOW)
        row = SignInFailures.objects.get(key=key)
        if row.count > most:
            wait = max(1, round((row.until - now).total_seconds()))
            _closed.note(key, wait)
            _asked.note(key)
            raise TooMany(wait)


def _forgive(keys: dict[str, int]) -> None:
    """Take a try back that was right; what others failed at the same name or address still counts."""
    SignInFailures.objects.filter(key__among=keys, count__gt=0).update(count=F("count") - 1)
