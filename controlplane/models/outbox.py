"""Hand-overs: what must be done outside, what changed inside, which answers were given."""

from django.db import models


class Action(models.Model):
    """One command for the cluster, written with the decision, performed after it, safe to repeat."""

    verb = models.CharField(
        max_length=10, help_text="start, stop, resize, limit, wake, sleep, offload, split, address, guard or cordon"
    )
    workload = models.UUIDField(null=True)
    attempt = models.PositiveIntegerField(default=0)
    payload = models.JSONField(default=dict)
    created_at = models.FloatField(help_text="Cluster clock")
    tries = models.PositiveIntegerField(default=0)
    not_before = models.FloatField(default=0, help_text="Cluster clock; back-off")
    error = models.CharField(max_length=400, blank=True)
    done_at = models.FloatField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=models.Q(done_at__isnull=True), name="action_open"),
            models.Index(fields=["workload"]),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.workload}-{self.attempt}"


class Change(models.Model):
    """A workload (or, with null, the nodes, teams or quotas) changed: the scheduler's snapshot reads it again.

    A queue of hints, not of values: rows are deleted by the round that has read them, in one fenced transaction,
    so it does not matter in which order writers commit.
    """

    workload = models.UUIDField(null=True)
    cell = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="Whose decider it is for (docs/cells.md)"
    )

    def __str__(self) -> str:
        return str(self.workload)


class IdempotencyKey(models.Model):
    """The first answer to a request, replayed for 24 h. Times are the database's clock."""

    user = models.ForeignKey("controlplane.User", on_delete=models.CASCADE)
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="SHA-256 of method, path and body")
    status = models.PositiveSmallIntegerField(null=True, help_text="null = in flight")
    body = models.TextField(blank=True)
    headers = models.JSONField(default=dict)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_answer_per_key")]

    def __str__(self) -> str:
        return self.key
