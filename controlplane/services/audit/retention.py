"""Apply the retention: delete what is too old, from the beginning of a table, a small batch at a time.

How far a table has been pruned is a row (`Pruned`), written with the deletion: it is not looked for among rows
that are gone, and a trigger lets events be deleted up to there only. The newest row of a table always stays. A
batch that is lost with the machine is deleted again, so no commit waits for the disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import BigIntegerField, Case, F, Max, Min, Q, When

from controlplane.domain import retention
from controlplane.domain.retention import Retention
from controlplane.models import Cycle, Event, Pruned, ServiceDay, ServiceWindow, TeamSample, WorkloadSample
from controlplane.models.statements import without_waiting
from controlplane.services.scheduling import clock
from controlplane.services.scheduling.leases import HeldLease

BATCH = 250  # rows; two or three milliseconds, for which the lease's row is locked
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A table whose rows are deleted by age. Numbers follow times, or nearly so: it is cut from the beginning."""

    model: type[models.Model]
    at: str  # the column with a row's time
    setting: Retention
    is_cluster: bool = False  # by the cluster's clock, not the database's
    only: Q = field(default_factory=Q)  # rows that may go

    @property
    def name(self) -> str:
        """Of the table."""
        return self.model._meta.db_table


KEPT: Mapping[str, Kept] = {
    one.name: one
    for one in (
        Kept(Event, "at", retention.EVENTS),
        Kept(
            Cycle, "at", retention.CYCLES, only=Q(input__isnull=True)
        ),  # the newest, which can be decided again, have one
        Kept(TeamSample, "at", retention.SAMPLES, is_cluster=True),
        Kept(ServiceWindow, "start", retention.SAMPLES, is_cluster=True),
        Kept(WorkloadSample, "at", retention.WORKLOAD_SAMPLES, is_cluster=True),
        Kept(ServiceDay, "day", retention.SERVICE_DAYS, is_cluster=True),
    )
}


def days(of: Retention) -> int:
    """How long its rows are kept."""
    return int(settings.KEEP_DAYS[of.variable])


@transaction.atomic
def prune(kept: Kept, *, lease: HeldLease, most: int = BATCH) -> int:
    """Delete at most so many rows that are too old; tell how many. Raises LeaseLost."""
    lease.check()
    without_waiting()
    before = Pruned.objects.filter(pk=kept.name).values_list("number", flat=True).first()
    until = _until(kept, before or 0, most)
    if until is None:
        return 0
    now = clock.database_now()
    if before is None:
        Pruned.objects.create(name=kept.name, number=until, at=now)
    else:
        Pruned.objects.filter(pk=kept.name).update(number=until, at=now)
    # In one statement: no row refers to these.
    deleted, _ = kept.model._default_manager.filter(id__gt=before or 0, id__lte=until).delete()
    Pruned.objects.filter(pk=kept.name).update(rows=F("rows") + deleted)
    return deleted


def _until(kept: Kept, before: int, most: int) -> int | None:
    """The last number of the next batch: before the first row that has to stay, and before the newest."""
    if kept.is_cluster:
        limit: Any = clock.now() - days(kept.setting) * DAY
    else:
        limit = clock.database_now() - timedelta(days=days(kept.setting))
    may_go = Q(**{f"{kept.at}__lt": limit}) & kept.only
    part = (
        kept.model._default_manager.filter(id__gt=before)
        .order_by("id")
        .annotate(staying=Case(When(may_go, then=None), default=F("id"), output_field=BigIntegerField()))
    )
    found = part.values("id", "staying")[: most + 1].aggregate(Min("id"), Max("id"), Min("staying"))
    first, last, staying = found["id__min"], found["id__max"], found["staying__min"]
    if first is None:
        return None
    until = int(last if staying is None else staying) - 1
    return until if until >= first else None
