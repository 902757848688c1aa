"""Accounts."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from unfold.widgets import UnfoldAdminPasswordWidget

from controlplane.admin.base import Kept, ReadOnly, ServiceForm
from controlplane.models import Token, User
from controlplane.services.accounts import people, tokens, two_factor


class UserForm(ServiceForm):
    """One account."""

    new_password = forms.CharField(
        required=False,
        widget=UnfoldAdminPasswordWidget,
        help_text="At least 10 characters. Leave it empty to keep the password.",
    )

    lost_second_step = forms.BooleanField(
        required=False,
        label="Turn two-factor authentication off",
        help_text="For a user who has lost both the authenticator app and the recovery codes.",
    )

    sign_out = forms.BooleanField(
        required=False, label="Sign out everywhere", help_text="Ends the sessions in all browsers. Tokens stay."
    )

    end_tokens = forms.BooleanField(
        required=False, label="End all tokens", help_text="Tokens of the CLI, CI and scripts. Sessions stay."
    )

    class Meta:
        model = User
        fields = ("username", "email", "is_active", "is_superuser")
        labels = {"is_superuser": "Platform admin", "is_active": "May sign in"}
        help_texts = {"is_superuser": "May do everything, including quotas and this console.", "is_active": ""}

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Create or change the account."""
        given = self.cleaned_data
        if self.instance.pk is None:
            made = people.create(
                username=given["username"],
                password=given["new_password"],
                email=given["email"],
                is_platform_admin=given["is_superuser"],
                actor=self.actor,
            )
            return made, ()
        changed = people.change(
            user=self.instance,
            email=given["email"],
            is_active=given["is_active"],
            is_platform_admin=given["is_superuser"],
            password=given["new_password"],
            actor=self.actor,
        )
        if given["lost_second_step"]:
            two_factor.take_away(user=changed, actor=self.actor)
        if given["sign_out"]:
            people.end_sessions(user=changed, actor=self.actor)
        if given["end_tokens"]:
            tokens.revoke_all(user=changed, actor=self.actor)
        return changed, ()

    def field_of(self, name: str) -> str:
        """The password's field."""
        return "new_password" if name == "password" else name

    def clean_lost_second_step(self) -> bool:
        """Only a user with two-factor authentication can lose it."""
        lost: bool = self.cleaned_data["lost_second_step"]
        if lost and (self.instance.pk is None or not two_factor.is_on(self.instance)):
            raise forms.ValidationError("Two-factor authentication is not on for this user.")
        return lost


@admin.register(User)
class UserAdmin(Kept):
    """People and CI accounts; what they may do in teams is in the memberships."""

    form = UserForm
    list_display = ("username", "email", "service_of", "is_active", "is_superuser", "last_login")
    list_select_related = ("service_of",)
    list_filter = ("is_active", "is_superuser", ("service_of", admin.EmptyFieldListFilter))
    search_fields = ("username", "email")
    ordering = ("username",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The log refers to the name."""
        return ("username",) if obj else ()

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Accounts are changed only by an admin that gave the password or a code again in the last five minutes."""
        if settings.REAUTHENTICATE:
            from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
            from allauth.core.exceptions import ReauthenticationRequired

            try:
                raise_if_reauthentication_required(request, app="weft")
            except ReauthenticationRequired:
                if request.method != "POST":
                    raise
                # allauth would keep the form in the session until then, and a new password in it.
                messages.warning(
                    request, "Nothing was saved, because you had to enter your password first. Fill in the form again."
                )
                return redirect(f"{reverse('account_reauthenticate')}?{urlencode({'next': request.path})}")
        return super().changeform_view(request, *args, **kwargs)


@admin.register(Token)
class TokenAdmin(ReadOnly):
    """API tokens: their users, and when they were used. Never the token itself."""

    list_display = ("name", "user", "issuer", "scope", "team", "prefix", "created_at", "expires_at", "last_used_at")
    fields = list_display
    list_select_related = ("user", "issuer", "team")
    search_fields = ("name", "user__username")
