"""Finds what time alone brings about (controlplane/lifecycle/timeouts.py), and has it happen.

No pod reports it, so the observe loop looks for it every half minute of the cluster's clock.

Plain SQL (models/bulk.py): what is due is found by partial indexes, in every round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.db import connection

from controlplane.lifecycle import resizing as lifecycle
from controlplane.lifecycle import timeouts
from controlplane.lifecycle.following import GATED
from controlplane.lifecycle.pods import settle
from controlplane.lifecycle.timeouts import COMING_UP, UNPLACED
from controlplane.models import Placement, Workload, bulk
from controlplane.services.workloads import resizing
from controlplane.services.workloads.rows import Row
from controlplane.services.workloads.transitions import Batch
from scheduler.model.workload import ACTIVE, ENDED, LEAVING, Phase

_PROMISED = """WHERE NOT "is_settled" AND "bound_at" IS NULL AND "state" IN ('Reserved', 'Leaving')"""


def _listed(phases: Iterable[Phase]) -> str:
    return ", ".join(f"'{phase.value}'" for phase in sorted(phases))


# What a limit or nothing but time moves on. Apart, since each finds its few rows by an index: thousands may wait.
_EACH = 'SELECT "uid" FROM "controlplane_workload" WHERE "phase" IN'
_DUE = f"""WHERE "uid" IN ({_EACH} ({_listed(UNPLACED)}) AND "deadline" <= %s
    UNION ALL {_EACH} ({_listed(ACTIVE)}) AND "started_at" + "max_seconds" <= %s
    UNION ALL {_EACH} ({_listed(LEAVING)}))"""
_LATE = f"""WHERE NOT "is_settled" AND "state" = 'Bound' AND "bound_at" <= %s AND "pod_phase" <> 'Running'
    AND EXISTS (SELECT 1 FROM "controlplane_workload" "w" WHERE "w"."uid" = "workload_id" AND "w"."intent" = ''
    AND "w"."kind" <> 'inference' AND "w"."phase" IN ({_listed(COMING_UP)}))"""  # noqa: S608 - constants
_RESIZING = 'WHERE "resize" IS NOT NULL'


def _overtaken() -> str:
    """Workloads that have ended while others still wait for them: left over by a version that did not follow that."""
    is_unmet = (
        """"w"."unmet" <> '[]'::jsonb AND jsonb_exists("w"."unmet", "n"."name")"""
        if connection.vendor == "postgresql"
        else """"w"."unmet" <> '[]' AND EXISTS (SELECT 1 FROM json_each("w"."unmet") WHERE "value" = "n"."name")"""
    )
    return f"""WHERE "uid" IN (SELECT "n"."uid" FROM "controlplane_workload" "w"
        JOIN "controlplane_dependency" "d" ON "d"."workload_id" = "w"."uid"
        JOIN "controlplane_workload" "n" ON "n"."uid" = "d"."needs_id"
        WHERE "w"."phase" IN ({_listed(GATED)}) AND {is_unmet} AND "n"."phase" IN ({_listed(ENDED)}))"""  # noqa: S608


def is_due(*, at: float, gang_timeout_seconds: float) -> bool:
    """Whether `enforce`, or admission to reserved places, has anything to look at; asked without a transaction."""
    return bool(
        bulk.select(Workload, ("uid",), f"{_DUE} LIMIT 1", (at, at))
        or bulk.select(Placement, ("workload_id",), f"{_LATE} LIMIT 1", (at - gang_timeout_seconds,))
        or bulk.select(Placement, ("workload_id",), f"{_PROMISED} LIMIT 1")
        or bulk.select(Workload, ("uid",), f"{_overtaken()} LIMIT 1")
        or bulk.select(Workload, ("uid",), f"{_RESIZING} LIMIT 1")
    )


@dataclass(frozen=True, slots=True)
class Due:
    """What nothing but time moves on: workloads with their phase as stored, gangs that come up late, gates."""

    phases: Mapping[UUID, str] = field(default_factory=dict)
    late: frozenset[UUID] = frozenset()
    overtaken: frozenset[UUID] = frozenset()  # have ended, and others wait for them
    resizing: frozenset[UUID] = frozenset()  # their CPU and memory are being changed in place


def due(at: float, gang_timeout_seconds: float) -> Due:
    """What `enforce` has to look at. To be asked before anything is locked, and locked with all the rest."""
    phases = dict(bulk.select(Workload, ("uid", "phase"), _DUE, (at, at)))
    late = bulk.select(Placement, ("workload_id",), _LATE, (at - gang_timeout_seconds,))
    overtaken = bulk.select(Workload, ("uid",), _overtaken())
    resized = bulk.select(Workload, ("uid",), _RESIZING)
    return Due(phases, *(frozenset(uid for (uid,) in found) for found in (late, overtaken, resized)))


def promised() -> list[UUID]:
    """The workloads with places that others still have to leave."""
    return list({uid for (uid,) in bulk.select(Placement, ("workload_id",), _PROMISED)})


def enforce(batch: Batch, found: Due, gang_timeout_seconds: float) -> None:
    """Expire, end and requeue what was found due."""
    batch.lock({*found.phases, *found.late, *found.overtaken, *found.resizing})
    for uid in sorted(found.overtaken):
        batch.followed(batch.rows[str(uid)])
    for uid, stored in sorted(found.phases.items()):
        # Why a row is due follows from its phase as stored: the pods of this observation may have moved it on since.
        row = batch.rows[str(uid)]
        if stored in UNPLACED and row.phase in UNPLACED:
            timeouts.expire(batch, row)
        elif stored in ACTIVE and row.phase in ACTIVE:
            timeouts.end(batch, row)
        elif row.phase in LEAVING:
            settle(batch, row, ())  # all its workers may be gone already
    for uid in sorted(found.late):
        timeouts.give_up(batch, batch.rows[str(uid)], gang_timeout_seconds)
    _end_resizes(batch, [batch.rows[str(uid)] for uid in sorted(found.resizing)])


def _end_resizes(batch: Batch, rows: Sequence[Row]) -> None:
    """Finish those whose last worker of the old size has left, and put back those that take too long."""
    resizing.conclude(batch, rows)
    for row in rows:
        if (why := lifecycle.overdue(batch, row, settings.RESIZE_SECONDS)) is not None:
            resizing.give_up(batch, row, *why)
