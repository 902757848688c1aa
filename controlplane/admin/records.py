"""History: events, cycles, leases and the outbox, to read."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin

from controlplane.admin.base import ReadOnly
from controlplane.models import Action, Audit, AuditEntry, Cycle, Event, Lease, Revision, StartForecast


@admin.display(description="Cluster clock")
def cluster_time(row: Any) -> str:
    """A moment of the cluster's clock, UTC."""
    return f"{datetime.fromtimestamp(row.cluster_at, UTC):%Y-%m-%d %H:%M:%S}"


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnly):
    """Each request with its user; `manage.py audit log` checks that no row was changed."""

    list_display = ("number", "at", "actor", "address", "method", "path", "outcome", "kind", "team", "name")
    list_filter = ("outcome", "kind")
    search_fields = ("actor", "name", "team")
    search_help_text = "A user, a team, or what it was about"
    ordering = ("-number",)
    fields = (
        "number", "at", "actor", "token", "address", "method", "route", "path", "status", "outcome", "kind", "team",
        "name", "changes", "digest",
    )  # fmt: skip


@admin.register(Event)
class EventAdmin(ReadOnly):
    """Append-only: a trigger refuses everything else."""

    list_display = (cluster_time, "kind", "team", "name", "reason", "message", "actor")
    list_filter = ("kind",)
    search_fields = ("name", "actor")
    search_help_text = "A workload's name, or a user"
    ordering = ("-id",)
    fields = (
        "at", "cluster_at", "actor", "kind", "team", "workload", "name", "phase", "reason", "message", "cycle", "data",
    )  # fmt: skip


@admin.register(Cycle)
class CycleAdmin(ReadOnly):
    """Rounds of the loops; `manage.py replay CYCLE` decides one again."""

    list_display = ("id", cluster_time, "loop", "took_ms", "counts", "epoch")
    list_filter = ("loop",)
    ordering = ("-id",)
    fields = ("loop", "at", "cluster_at", "took_ms", "epoch", "policy", "digest", "is_base", "counts", "decisions")


@admin.register(Lease)
class LeaseAdmin(ReadOnly):
    """The process that runs each loop."""

    list_display = ("name", "holder", "epoch", "expires_at")
    fields = list_display


@admin.register(Audit)
class AuditAdmin(ReadOnly):
    """What the newest self-audit found: all must be 0."""

    list_display = ("name", "violations", "example", "at")
    ordering = ("-violations", "name")
    fields = list_display


@admin.register(StartForecast)
class StartForecastAdmin(ReadOnly):
    """What was predicted of each wait, and what became of it: intervals are corrected by it."""

    list_display = ("workload", "asked_at", "low", "median", "high", "waited")
    ordering = ("-asked_at",)
    fields = (*list_display, "told_at", "told_low", "told_median", "told_high", "ended_at")


@admin.register(Revision)
class RevisionAdmin(ReadOnly):
    """Images and environments that services have, had or were to have."""

    list_display = ("workload", "number", "image", "made_by", "failed")
    search_fields = ("workload__name", "image")
    search_help_text = "A service's name, or an image"
    ordering = ("-id",)
    fields = ("workload", "number", "image", "env", "weight", "made_by", "made_at", "in_force_at", "failed")


@admin.register(Action)
class ActionAdmin(ReadOnly):
    """Commands for the cluster, and how they fared."""

    list_display = ("id", "verb", "workload", "attempt", "tries", "error", "done_at")
    list_filter = ("verb",)
    ordering = ("-id",)
    fields = ("verb", "workload", "attempt", "payload", "created_at", "tries", "not_before", "error", "done_at")
