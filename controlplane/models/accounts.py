"""How people come in: groups of the identity provider, sessions, and failures to sign in."""

from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

from controlplane.models.team import Role, Team, User


class GroupMapping(models.Model):
    """Whoever is in this group of the identity provider has this role in a team."""

    group = models.CharField(max_length=200, help_text="As the provider's groups claim has it.")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="group_mappings")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "team"], name="one_role_per_group_and_team")]

    def __str__(self) -> str:
        return f"{self.group}: {self.role} of {self.team}"


class Session(AbstractBaseSession):
    """A browser's session, with whose it is. Times are the database's clock; `expire_date` is never later than both."""

    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="sessions")
    created_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="The last request that somebody made on purpose.")
    address = models.CharField(max_length=45, blank=True)
    agent = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return f"{self.user} since {self.created_at}"


class ProviderGrant(models.Model):
    """By what the identity provider is asked whether a person still has an account. Times: the database's clock."""

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="provider_grant")
    sealed_token = models.TextField(blank=True, help_text="The refresh token, sealed; empty: it gave none.")
    checked_at = models.DateTimeField(help_text="When it last knew them: they signed in, or it was asked.")
    tried_at = models.DateTimeField(help_text="When it was last asked, whatever came of it.")

    def __str__(self) -> str:
        return f"{self.user} at {self.checked_at}"


class SignInFailures(models.Model):
    """How often signing in failed of late: for an account, an address, or an account from an address."""

    key = models.CharField(max_length=64, unique=True, help_text="SHA-256, so that no typed password can stand here.")
    count = models.PositiveIntegerField()
    until = models.DateTimeField(help_text="Database clock; then they are forgotten.")

    class Meta:
        verbose_name_plural = "sign-in failures"

    def __str__(self) -> str:
        return f"{self.count} until {self.until}"
