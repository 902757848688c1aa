"""allauth's forms of codes and passwords; a wrong one is noted with the name of whoever was asked, as a sign-in is."""

from collections.abc import Callable
from typing import Any

from allauth.account.forms import ReauthenticateForm
from allauth.mfa.base import forms as mfa
from allauth.mfa.totp.forms import ActivateTOTPForm
from django.core.exceptions import ValidationError

from controlplane.models import User
from controlplane.services.accounts import logins


class SecondStep(mfa.AuthenticateForm):
    """The code of a sign-in."""

    def clean_code(self) -> str:
        """The code, if it is right."""
        return _noted(_once(super().clean_code, self.user), self.user, logins.SECOND_STEP_FAILED)


class CodeAgain(mfa.ReauthenticateForm):
    """A code of somebody who is signed in, before they change who can sign in."""

    def clean_code(self) -> str:
        """The code, if it is right."""
        return _noted(_once(super().clean_code, self.user), self.user, logins.AGAIN_FAILED)


class PasswordAgain(ReauthenticateForm):
    """The password of somebody who is signed in, before they change who can sign in."""

    def clean_password(self) -> str:
        """The password, if it is right."""
        return _noted(super().clean_password, self.user, logins.AGAIN_FAILED)


class FirstCode(ActivateTOTPForm):
    """The code that sets the second factor up; it is a code like any other, so it is good for nothing else."""

    def clean_code(self) -> str:
        """The code, if it is right."""
        return _once(super().clean_code, self.user)()


def _once(check: Callable[[], Any], user: User) -> Callable[[], str]:
    """The same check, but a code that was right before is wrong."""

    def checked() -> str:
        code = str(check())
        if not logins.is_first_use(user, code):
            raise ValidationError("This code was used before. Wait for the next one.")
        return code

    return checked


def _noted(check: Any, user: User, kind: str) -> str:
    try:
        right = logins.count_step(user)
    except logins.TooMany as many:
        raise ValidationError(f"Too many attempts. Try again in {-(-many.retry_after // 60)} min.") from many
    try:
        found = str(check())
    except ValidationError:
        logins.note_failure(user=user, kind=kind)
        raise
    right()
    return found
