"""Apply the retention: delete what is too old, from the beginning of a table, a small batch at a time.

How far a table has been pruned is a row (`Pruned`), written with the deletion: it is not looked for among rows
that are gone, and a trigger lets events be deleted up to there only. The newest row of a table always stays. A
batch that is lost with the machine is deleted again, so no commit waits for the disk.

Raw SQL: a batch is found and deleted by its numbers, without reading it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import F

from controlplane.domain import retention
from controlplane.domain.retention import Retention
from controlplane.models import Cycle, Event, Pruned, ServiceWindow, TeamSample, WorkloadSample, bulk, statements
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
    only: str = "TRUE"  # SQL: rows that may go

    @property
    def name(self) -> str:
        """Of the table."""
        return self.model._meta.db_table


KEPT: Mapping[str, Kept] = {
    one.name: one
    for one in (
        Kept(Event, "at", retention.EVENTS),
        Kept(Cycle, "at", retention.CYCLES, only='"input" IS NULL'),  # the newest, which can be decided again, have one
        Kept(TeamSample, "at", retention.SAMPLES, is_cluster=True),
        Kept(ServiceWindow, "start", retention.SAMPLES, is_cluster=True),
        Kept(WorkloadSample, "at", retention.WORKLOAD_SAMPLES, is_cluster=True),
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
    pruned = f'DELETE FROM "{kept.name}" WHERE "id" > %s AND "id" <= %s'  # noqa: S608
    deleted = statements.execute(pruned, (before or 0, until))
    Pruned.objects.filter(pk=kept.name).update(rows=F("rows") + deleted)
    return deleted


def _until(kept: Kept, before: int, most: int) -> int | None:
    """The last number of the next batch: before the first row that has to stay, and before the newest."""
    if kept.is_cluster:
        limit: Any = clock.now() - days(kept.setting) * DAY
    else:
        oldest = clock.database_now() - timedelta(days=days(kept.setting))
        (limit,) = bulk.stored(kept.model, kept.at, (oldest,))
    stays = f'MIN(CASE WHEN "{kept.at}" < %s AND {kept.only} THEN NULL ELSE "id" END)'
    part = f'SELECT * FROM "{kept.name}" WHERE "id" > %s ORDER BY "id" LIMIT {most + 1}'  # noqa: S608
    found = statements.rows(f'SELECT MIN("id"), MAX("id"), {stays} FROM ({part}) "part"', (limit, before))  # noqa: S608
    ((first, last, staying),) = found
    if first is None:
        return None
    until = int(last if staying is None else staying) - 1
    return until if until >= first else None


def without_waiting() -> None:
    """Let the transaction end without waiting for the disk: what is lost is done again. Postgres only."""
    if connection.vendor == "postgresql":
        statements.execute("SET LOCAL synchronous_commit TO off")
