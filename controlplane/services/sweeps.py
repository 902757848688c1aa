"""What time alone brings about: deadlines, run-time limits, gangs that never come together.

No pod reports these, so the observe loop looks for them every half minute of the cluster's clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection

from controlplane.cluster.port import PodPhase
from controlplane.models import Placement, Workload, bulk
from controlplane.services.outcomes import REQUEUE, settle, stop_attempt
from controlplane.services.rows import BOUND, Row, Seat
from controlplane.services.transitions import Batch
from scheduler.workload import ACTIVE, ENDED, LEAVING, Phase

STALE_GANG_BACKOFF_SECONDS = 60.0
_COMING_UP = (Phase.ADMITTED, Phase.STARTING, Phase.SCALING)
_UNPLACED = (Phase.QUEUED, Phase.HELD, Phase.RESERVED)
_GATED = (Phase.SUBMITTED, Phase.QUEUED, Phase.HELD)

_PROMISED = """WHERE NOT "is_settled" AND "bound_at" IS NULL AND "state" IN ('Reserved', 'Leaving')"""


def _listed(phases: Iterable[Phase]) -> str:
    return ", ".join(f"'{phase.value}'" for phase in sorted(phases))


# What a limit or nothing but time moves on. Apart, since each finds its few rows by an index: thousands may wait.
_EACH = 'SELECT "uid" FROM "controlplane_workload" WHERE "phase" IN'
_DUE = f"""WHERE "uid" IN ({_EACH} ({_listed(_UNPLACED)}) AND "deadline" <= %s
    UNION ALL {_EACH} ({_listed(ACTIVE)}) AND "started_at" + "max_seconds" <= %s
    UNION ALL {_EACH} ({_listed(LEAVING)}))"""
_LATE = f"""WHERE NOT "is_settled" AND "state" = 'Bound' AND "bound_at" <= %s AND "pod_phase" <> 'Running'
    AND EXISTS (SELECT 1 FROM "controlplane_workload" "w" WHERE "w"."uid" = "workload_id" AND "w"."intent" = ''
    AND "w"."kind" <> 'inference' AND "w"."phase" IN ({_listed(_COMING_UP)}))"""  # noqa: S608 - constants


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
        WHERE "w"."phase" IN ({_listed(_GATED)}) AND {is_unmet} AND "n"."phase" IN ({_listed(ENDED)}))"""  # noqa: S608


def is_due(*, at: float, gang_timeout_seconds: float) -> bool:
    """Whether `enforce`, or admission to reserved places, has anything to look at; asked without a transaction."""
    return bool(
        bulk.select(Workload, ("uid",), f"{_DUE} LIMIT 1", (at, at))
        or bulk.select(Placement, ("workload_id",), f"{_LATE} LIMIT 1", (at - gang_timeout_seconds,))
        or bulk.select(Placement, ("workload_id",), f"{_PROMISED} LIMIT 1")
        or bulk.select(Workload, ("uid",), f"{_overtaken()} LIMIT 1")
    )


@dataclass(frozen=True, slots=True)
class Due:
    """What nothing but time moves on: workloads with their phase as stored, gangs that come up late, gates."""

    phases: Mapping[UUID, str] = field(default_factory=dict)
    late: frozenset[UUID] = frozenset()
    overtaken: frozenset[UUID] = frozenset()  # have ended, and others wait for them


def due(at: float, gang_timeout_seconds: float) -> Due:
    """What `enforce` has to look at. To be asked before anything is locked, and locked with all the rest."""
    phases = dict(bulk.select(Workload, ("uid", "phase"), _DUE, (at, at)))
    late = bulk.select(Placement, ("workload_id",), _LATE, (at - gang_timeout_seconds,))
    overtaken = bulk.select(Workload, ("uid",), _overtaken())
    return Due(phases, frozenset(uid for (uid,) in late), frozenset(uid for (uid,) in overtaken))


def promised() -> list[UUID]:
    """The workloads with places that others still have to leave."""
    return list({uid for (uid,) in bulk.select(Placement, ("workload_id",), _PROMISED)})


def enforce(batch: Batch, found: Due, gang_timeout_seconds: float) -> None:
    """Expire, end and requeue what was found due."""
    batch.lock({*found.phases, *found.late, *found.overtaken})
    for uid in sorted(found.overtaken):
        batch.followed(batch.rows[str(uid)])
    for uid, stored in sorted(found.phases.items()):
        # Why a row is due follows from its phase as stored: the pods of this observation may have moved it on since.
        row = batch.rows[str(uid)]
        if stored in _UNPLACED and row.phase in _UNPLACED:
            _expire(batch, row)
        elif stored in ACTIVE and row.phase in ACTIVE:
            _end(batch, row)
        elif row.phase in LEAVING:
            settle(batch, row, ())  # all its workers may be gone already
    for uid in sorted(found.late):
        _give_up(batch, batch.rows[str(uid)], gang_timeout_seconds)


def _expire(batch: Batch, row: Row) -> None:
    for seat in batch.live(row):
        batch.release(row, seat)
    batch.change(row, ended_at=batch.at)
    batch.move(row, Phase.EXPIRED, reason="DeadlineExceeded", message="Its deadline passed while it waited.")


def _end(batch: Batch, row: Row) -> None:
    message = "It ran as long as its max_duration allows."
    batch.move(row, Phase.STOPPING, reason="MaxDurationExceeded", message=message)
    batch.change(row, intent="", reason="MaxDurationExceeded", message=message)
    batch.leave(row, [seat for seat in batch.live(row) if seat.state == BOUND])


def _give_up(batch: Batch, row: Row, gang_timeout_seconds: float) -> None:
    if row.phase not in _COMING_UP or row.intent:
        return
    late = [seat for seat in batch.live(row) if seat.pod_phase != PodPhase.RUNNING and seat.state == BOUND]
    what = f"{_named(row, late[:8])} did not start within {gang_timeout_seconds:.0f} s"
    if row.phase == Phase.SCALING:  # an elastic gang goes on without those by which it was to grow
        batch.bump(row, scaled_at=batch.at)
        batch.note(row, "Shrunk", message=f"{what}; it goes on without them.", data={"ranks": [s.rank for s in late]})
        batch.leave(row, late)
        return
    message = f"{what}; it is queued again."
    batch.change(row, not_before=batch.at + STALE_GANG_BACKOFF_SECONDS)
    stop_attempt(batch, row, REQUEUE, "GangTimeout", message)


def _named(row: Row, seats: Sequence[Seat]) -> str:
    if not row.roles:
        return f"Workers {', '.join(str(seat.rank) for seat in seats)}"
    return ", ".join("{} {}".format(*row.role_of(seat.rank)) for seat in seats).capitalize()
