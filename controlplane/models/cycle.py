"""Rounds of the loops: leases, replayable cycles, policy versions."""

from django.db import models


class Lease(models.Model):
    """The process that may run a loop. epoch grows with each change of holder and fences every write (S7)."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=120, blank=True)
    epoch = models.PositiveBigIntegerField(default=0)
    expires_at = models.DateTimeField(help_text="Database clock")

    def __str__(self) -> str:
        return f"{self.name} by {self.holder} ({self.epoch})"


class Heartbeat(models.Model):
    """How one loop fares, in whichever process it runs: the last round that was complete, and what failed since."""

    loop = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField(null=True, help_text="Database clock of the last complete round")
    holder = models.CharField(max_length=120, blank=True)
    took_ms = models.FloatField(default=0)
    error = models.CharField(max_length=400, blank=True, help_text="Why the newest round was not complete")

    def __str__(self) -> str:
        return f"{self.loop} at {self.at}"


class Audit(models.Model):
    """What the newest self-audit found for one invariant (controlplane/invariants)."""

    name = models.CharField(max_length=8, primary_key=True, help_text="S1..S18")
    violations = models.PositiveIntegerField(default=0)
    example = models.CharField(max_length=400, blank=True, help_text="The first of them")
    at = models.DateTimeField(help_text="Database clock")

    def __str__(self) -> str:
        return f"{self.name}: {self.violations}"


class PolicyVersion(models.Model):
    """The cores' settings, one append-only row a version; the newest is in force."""

    data = models.JSONField()
    author = models.CharField(max_length=150)
    at = models.DateTimeField()
    comment = models.CharField(max_length=200, blank=True)
    cells_number = models.PositiveIntegerField(
        default=0, db_default=0, help_text="How often the cells had changed by then: rounds by other cells are over"
    )

    def __str__(self) -> str:
        return f"version {self.pk}"


class Cycle(models.Model):
    """One round: what it saw (a base or the difference to the cycle before, compressed) and decided."""

    loop = models.CharField(max_length=20)
    at = models.DateTimeField()
    cluster_at = models.FloatField()
    took_ms = models.FloatField()
    epoch = models.PositiveBigIntegerField()
    policy = models.BigIntegerField(null=True)
    digest = models.CharField(max_length=64, help_text="Of the snapshot; order-free")
    is_base = models.BooleanField(default=False)
    input = models.BinaryField(null=True)
    decisions = models.JSONField(default=list)
    counts = models.JSONField(default=dict)
    cell = models.CharField(max_length=20, blank=True, default="", db_default="", help_text="Whose nodes it was about")

    class Meta:
        indexes = [models.Index(fields=["loop", "-id"])]

    def __str__(self) -> str:
        return f"{self.loop} {self.pk}"


class RoundView(models.Model):
    """How the newest full round of a scheduler left the queue and the cluster: what reads ask instead of a round.

    One row a decider, replaced in place in the transaction that stores the round's decisions; none of what was decided
    by cells that are not in force any more.
    """

    name = models.CharField(max_length=40, primary_key=True, help_text="Of the lease whose holder decided")
    cluster_at = models.FloatField(help_text="When, by the cluster's clock")
    every = models.FloatField(help_text="Seconds of the cluster's clock between two full rounds")
    lineup = models.BinaryField(help_text="domain/roundview.py")
    held = models.BinaryField(help_text="domain/roundview.py")

    def __str__(self) -> str:
        return f"{self.name} at {self.cluster_at:.0f}"
