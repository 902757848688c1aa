"""The audit log: who asked for what, from where, and what came of it; chained by hash and append-only."""

from django.db import models


class Outcome(models.TextChoices):
    """What came of a request."""

    DONE = "done", "Done"
    DENIED = "denied", "Denied: not signed in, or not allowed"
    REFUSED = "refused", "Refused: it asked for something that cannot be"
    FAILED = "failed", "Failed on the server"


class AuditEntry(models.Model):
    """One request that changed something or tried to. A trigger denies UPDATE and DELETE.

    `number` has no gaps, and `digest` is the SHA-256 of the row before and of this one (services.auditlog): whoever
    changes, removes, inserts or reorders rows breaks the chain. `at` is by the clock of the process that answered.
    """

    number = models.BigIntegerField(primary_key=True, help_text="1, 2, 3, ... without gaps")
    at = models.DateTimeField(help_text="UTC")
    actor = models.CharField(max_length=150, blank=True, help_text="A user's name; empty: nobody was signed in")
    token = models.CharField(max_length=12, blank=True, help_text="How the token begins; empty: a session")
    address = models.CharField(max_length=45, blank=True, help_text="IP address")
    method = models.CharField(max_length=8)
    route = models.CharField(max_length=200, help_text="The address with its parameters as names")
    path = models.CharField(max_length=300)
    status = models.PositiveSmallIntegerField(help_text="HTTP")
    outcome = models.CharField(max_length=8, choices=Outcome.choices)
    kind = models.CharField(max_length=40, blank=True, help_text="Of the first event that it wrote")
    team = models.CharField(max_length=40, blank=True, help_text="Empty: none, or several")
    name = models.CharField(max_length=150, blank=True, help_text="What it was about")
    changes = models.TextField(help_text="JSON: the events that it wrote, with values before and after; no secrets")
    digest = models.CharField(max_length=64, help_text="SHA-256, hexadecimal")

    class Meta:
        verbose_name = "audit log entry"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["team", "-number"]),
            models.Index(fields=["actor", "-number"]),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.actor} {self.method} {self.path}"
