"""How far the logs have been pruned. Both tables are append-only in what they say: see migration 0022."""

from django.db import models


class AuditAnchor(models.Model):
    """Where the audit log begins after a pruning: the last row that went, and its digest.

    Written in the transaction that deletes those rows, and chained like them: `chain` is the SHA-256 of the anchor
    before and of this one (auditchain.py). Triggers allow an anchor only where all rows up to it are old enough, and
    no change of one. At most one a day, or one for each full batch of rows.
    """

    number = models.BigIntegerField(primary_key=True, help_text="Of the last row that was pruned")
    digest = models.CharField(max_length=64, help_text="Of that row: what the first row that is left follows")
    rows = models.BigIntegerField(help_text="How many went since the anchor before")
    at = models.DateTimeField(help_text="Database clock")
    chain = models.CharField(max_length=64, help_text="SHA-256, hexadecimal")

    def __str__(self) -> str:
        return f"pruned up to {self.number}"


class Pruned(models.Model):
    """How far one table has been pruned: all its rows up to this number are gone. It only goes on.

    A trigger lets events be deleted up to here, and this go on only where all events up to it are old enough.
    """

    name = models.CharField(max_length=40, primary_key=True, help_text="The table")
    number = models.BigIntegerField(help_text="Of the last row that was pruned")
    rows = models.BigIntegerField(default=0, help_text="How many were deleted in all")
    at = models.DateTimeField(help_text="Database clock, of the last time that any were")

    class Meta:
        verbose_name_plural = "pruned tables"

    def __str__(self) -> str:
        return f"{self.name} up to {self.number}"
