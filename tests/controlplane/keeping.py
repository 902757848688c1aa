"""Rows of some age, for tests of the retention."""

from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any

from django.db import connection
from django.utils import timezone

from controlplane.models import AuditEntry, Event
from controlplane.security.auditchain import FIRST, digest_of

migration: Any = import_module("controlplane.migrations.0022_retention")


def guard() -> None:
    """Put the triggers on again that tests/conftest.py takes off, since Django empties tables by deleting."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for name, statement in migration.SQLITE.items():
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
                cursor.execute(statement)


def unguard() -> None:
    """What only the owner of the tables can do: switch the triggers off."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in (*migration.SQLITE, "auditentry_keeps_values"):
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        else:
            for table in ("auditentry", "auditanchor", "event", "pruned"):
                cursor.execute(f"ALTER TABLE controlplane_{table} DISABLE TRIGGER USER")


def written(ages: Sequence[float]) -> list[AuditEntry]:
    """Rows of the audit log, chained, so many days old each."""
    last = AuditEntry.objects.order_by("-number").first()
    number, digest = (last.number, last.digest) if last else (0, FIRST)
    rows = []
    for age in ages:
        number += 1
        at = timezone.now() - timedelta(days=age)
        values = (number, at, "ada", "", "10.0.0.1", "PUT", "r", f"/{number}", 200, "done", "", "", "", "[]")
        digest = digest_of(digest, values)
        names = [field.name for field in AuditEntry._meta.concrete_fields]
        rows.append(AuditEntry(**dict(zip(names, (*values, digest), strict=True))))
    AuditEntry.objects.bulk_create(rows)
    return rows


def happened(ages: Sequence[float], **columns: Any) -> list[Event]:
    """Events, so many days old each."""
    now, given = timezone.now(), {"actor": "ada", "kind": "Waiting", "cluster_at": 0.0} | columns
    return Event.objects.bulk_create([Event(at=now - timedelta(days=age), **given) for age in ages])
