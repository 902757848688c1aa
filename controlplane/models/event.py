"""What happened: append-only, by trigger on both databases."""

from collections.abc import Mapping
from types import MappingProxyType

from django.db import models


class Event(models.Model):
    """One decision, transition or user action. Keeps the workload's uid, not a key that could cascade."""

    at = models.DateTimeField(help_text="Database clock")
    cluster_at = models.FloatField(help_text="Cluster clock")
    actor = models.CharField(max_length=150, help_text="A user's name, or loop:NAME")
    kind = models.CharField(max_length=40)
    team = models.CharField(max_length=40, blank=True)
    workload = models.UUIDField(null=True)
    name = models.CharField(max_length=63, blank=True)
    phase = models.CharField(max_length=14, blank=True, help_text="The phase it led to")
    reason = models.CharField(max_length=40, blank=True)
    message = models.CharField(max_length=400, blank=True)
    cycle = models.BigIntegerField(null=True)
    data = models.JSONField(default=dict)

    # (team, `team/name`) by id of what it mentions (scheduler/model/mention.py): filled in by queries.feed, no column.
    mentions: Mapping[str, tuple[str, str]] = MappingProxyType({})

    class Meta:
        indexes = [
            models.Index(fields=["workload", "id"]),
            models.Index(fields=["team", "-id"]),
            models.Index(fields=["kind", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
