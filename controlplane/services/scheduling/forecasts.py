"""Expected starts in the database: what is told of each wait, and what became of it, for history to learn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from controlplane.models import StartForecast, Workload, bulk
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.history import NEWEST
from scheduler.model.workload import Phase
from scheduler.predict.expected_start import NOW
from scheduler.predict.run_times import Spread

_ASKED = ("asked_at", "low", "median", "high")
_TOLD = ("told_at", "told_low", "told_median", "told_high")
_KEEP = 2 * NEWEST  # waits that are over; half of them are spare, so that not every round deletes


@dataclass(frozen=True, slots=True)
class Forecast:
    """The wait of one in the queue: uncorrected, in seconds, and what is told of it, as times. None: unpredictable."""

    waits: Spread | None
    told: Spread | None


@transaction.atomic
def record(*, found: Mapping[str, Forecast], at: float, lease: HeldLease) -> int:
    """Keep what is told of waiting work, and compare what waits no more; how many of these. Raises LeaseLost."""
    lease.check()
    open_ = dict(bulk.select(StartForecast, ("workload", "asked_at"), {"waited__isnull": True}))
    over = [uid for uid in open_ if str(uid) not in found]
    count = _compare(over, open_)
    still = {str(uid) for uid in open_} - {str(uid) for uid in over}
    told = [(at, *_values(found[uid].told), UUID(uid)) for uid in sorted(still)]
    bulk.update(StartForecast, _TOLD, ("workload",), told)
    new = [uid for uid in found if uid not in still and found[uid].waits != NOW]
    # The row of a workload that waits again is that of its new wait.
    bulk.delete(StartForecast, "workload", [UUID(uid) for uid in new])
    rows = [
        (UUID(uid), at, *_values(found[uid].waits), _values(found[uid].told)[2], at, *_values(found[uid].told))
        for uid in new
    ]
    bulk.insert(StartForecast, ("workload", *_ASKED, "first_high", *_TOLD), rows)
    _prune()
    return count


def _values(spread: Spread | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if spread is None else (spread.low, spread.median, spread.high)


def _compare(over: list[UUID], asked: Mapping[UUID, float]) -> int:
    """Note how long these waited; one that was stopped before a start, or had no prediction, teaches nothing."""
    starts: dict[UUID, float] = {}
    waits: set[UUID] = set()
    silenced: list[UUID] = []
    for part in bulk.chunks(over):
        columns = ("uid", "phase", "first_started_at", "started_at")
        for uid, phase, first, started in bulk.select(Workload, columns, {"uid__among": part}):
            start = max((at for at in (first, started) if at is not None), default=None)
            if start is not None and start >= asked[uid]:
                starts[uid] = start
            elif phase in _ON_ITS_WAY:
                waits.add(uid)
                silenced += [uid] if phase == Phase.QUEUED.value else []  # it has no prediction any more
    bulk.update(
        StartForecast,
        ("waited", "ended_at"),
        ("workload",),
        [(start - asked[uid], start, uid) for uid, start in starts.items()],
    )
    StartForecast.objects.filter(workload__among=silenced).update(told_low=None, told_median=None, told_high=None)
    bulk.delete(StartForecast, "workload", [uid for uid in over if uid not in starts and uid not in waits])
    StartForecast.objects.filter(waited__isnull=False, high__isnull=True).delete()
    return len(starts)


_ON_ITS_WAY = frozenset(phase.value for phase in (Phase.QUEUED, Phase.RESERVED, Phase.ADMITTED, Phase.STARTING))


def _prune() -> None:
    ended = StartForecast.objects.filter(waited__isnull=False).order_by("-ended_at", "workload")
    if ended.count() > _KEEP:
        oldest = ended.values_list("ended_at", flat=True)[NEWEST - 1]
        ended.filter(ended_at__lt=oldest).delete()
