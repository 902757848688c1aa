"""Signing in in two steps, with an authenticator app or a recovery code; django-allauth keeps them (`allauth.mfa`)."""

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction

from controlplane.models import User
from controlplane.services.accounts import endings
from controlplane.services.audit import events
from controlplane.services.errors import Refused

NEEDED = "Platform admins need two-factor authentication here. Sign in on the pages and set it up first."


def is_on(user: User) -> bool:
    """Whether this user has set up an authenticator app."""
    return bool(Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists())


def is_missing(user: User) -> bool:
    """Whether this user has to set one up first: a platform admin, where WEFT_ADMINS_NEED_TWO_STEPS says so.

    Who has no password here comes by the identity provider, whose matter it is.
    """
    is_asked = settings.ADMINS_NEED_TWO_STEPS and user.is_superuser and user.has_usable_password()
    return bool(is_asked and not is_on(user))


def require(user: User) -> None:
    """Raise Refused 403 for somebody who has to set it up first: on the pages, which let them do that and no more."""
    if is_missing(user):
        raise Refused(403, "EnrolmentNeeded", "", NEEDED)


def accepts(user: User, code: str) -> bool:
    """Whether it is the app's present code, or a recovery code that was not used; either is then used up."""
    known = Authenticator.objects.filter(user=user).order_by("-type")  # the app first
    return any(one.wrap().validate_code(code) for one in known if one.type != Authenticator.Type.WEBAUTHN)


@transaction.atomic
def take_away(*, user: User, actor: str) -> None:
    """Let somebody in with the password alone who has lost both the app and the recovery codes. For platform admins.

    Their sessions and tokens end: whoever found the app may have used it.
    """
    deleted, _ = Authenticator.objects.filter(user=user).delete()
    if not deleted:
        message = f"{user.username} does not use two-factor authentication."
        raise Refused(409, "NotOn", "", message)
    events.record(kind="TwoStepsRemoved", actor=actor, data={"user": user.username})
    endings.of_person(user=user, why="two-factor authentication was removed", actor=actor)


def switched_on(*, user: User, session: str) -> None:
    """Somebody has set it up: what the password alone had let in ends, but for this session."""
    events.record(kind="TwoStepsOn", actor=user.username, data={"user": user.username})
    endings.of_person(user=user, why="two-factor authentication was set up", actor=user.username, but=session)
