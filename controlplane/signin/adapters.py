"""What allauth asks us: who may come in, under which name, with which roles; and how secrets are kept."""

import base64
import hashlib
from typing import Any

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.http import HttpRequest
from django.shortcuts import render

from controlplane.jobspec.names import username_of
from controlplane.models import User
from controlplane.services.accounts import groups, people, provider, two_factor
from controlplane.services.audit import events

NOTED = {
    "mfa/email/totp_deactivated": "TwoStepsOff",
    "mfa/email/recovery_codes_generated": "RecoveryCodesMade",
}
MAX_REFRESH = 8192  # characters
log = structlog.get_logger(__name__)


class AccountAdapter(DefaultAccountAdapter):
    """Accounts: nobody signs up by a form, and nothing is sent by e-mail."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """No: local accounts are made by platform admins."""
        return False

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send nothing."""

    def send_notification_mail(self, template_prefix: str, user: User, *args: Any, **kwargs: Any) -> None:
        """Note in the log what allauth would write of by e-mail: that a second factor was set up or removed."""
        if template_prefix == "mfa/email/totp_activated":
            two_factor.switched_on(user=user, session=str(self.request.session.session_key))
        elif template_prefix in NOTED:
            events.record(kind=NOTED[template_prefix], actor=user.username, data={"user": user.username})

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing: the pages themselves tell what happened."""


class ProviderAdapter(DefaultSocialAccountAdapter):
    """People of the identity provider."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Whoever the provider lets in has an account; what they may do, their groups say."""
        return True

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> Any:
        """Take name and address from the claims; the user name is the provider's, as far as it can be one."""
        user = super().populate_user(request, sociallogin, data)
        wanted = data.get("username") or (data.get("email") or "").split("@")[0] or "user"
        user.username = _free(username_of(str(wanted)))
        return user

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Refuse who was switched off; else bring roles up to date before the session begins."""
        if not sociallogin.is_existing:
            return
        if not sociallogin.user.is_active:
            page = render(request, "frontend/no_entry.html", {"sentence": "Your account is switched off."}, status=403)
            raise ImmediateHttpResponse(page)
        _follow(sociallogin.user, sociallogin)
        provider.signed_in(user=sociallogin.user, token=_refresh_token(sociallogin))

    def on_authentication_error(self, request: HttpRequest, provider: Any, **kwargs: Any) -> None:
        """Show one page for whatever went wrong; what it was is in the log."""
        error = kwargs.get("exception") or kwargs.get("error")
        log.warning("single sign-on failed", error=str(error), address=request.META.get("REMOTE_ADDR", ""))
        sentence = "Single sign-on did not work. Try again; if it fails again, tell a platform admin when it was."
        raise ImmediateHttpResponse(render(request, "frontend/no_entry.html", {"sentence": sentence}, status=403))

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        """Make the account at the first sign-in, with its roles."""
        user = super().save_user(request, sociallogin, form)
        people.came(user=user)
        _follow(user, sociallogin)
        provider.signed_in(user=user, token=_refresh_token(sociallogin))
        return user


class SecondStepAdapter(DefaultMFAAdapter):
    """Keeps the secrets of authenticator apps enciphered: a copy of the database signs nobody in."""

    def encrypt(self, text: str) -> str:
        """Encipher with the secret key."""
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Decipher with the secret key, or with one of those before it."""
        return _cipher().decrypt(encrypted_text.encode()).decode()


def _cipher() -> MultiFernet:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    digests = (hashlib.sha256(b"weft second step\n" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def _follow(user: User, sociallogin: Any) -> None:
    names = groups.names_of(sociallogin.account.extra_data)
    groups.sync(user=user, groups=names)
    if settings.OIDC_ADMIN_GROUP:
        people.set_platform_admin(user=user, is_platform_admin=settings.OIDC_ADMIN_GROUP in names)


def _refresh_token(sociallogin: Any) -> str:
    """What the provider gave to ask it by later; "" where it gave nothing, or nothing that could be one."""
    found = str(getattr(sociallogin.token, "token_secret", "") or "")
    return found if len(found) <= MAX_REFRESH else ""


def _free(wanted: str) -> str:
    """The name, or with a number if somebody else has it."""
    taken = set(User.objects.filter(username__istartswith=wanted).values_list("username", flat=True))
    lowered = {name.lower() for name in taken}
    if wanted.lower() not in lowered:
        return wanted
    return next(name for n in range(2, len(lowered) + 3) if (name := f"{wanted}{n}").lower() not in lowered)
