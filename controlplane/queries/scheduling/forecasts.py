"""When waiting workloads should start, as loops/predict_starts.py last worked it out; and what past ones teach."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from controlplane.jobspec.quantities import iso
from controlplane.models import StartForecast, bulk
from controlplane.models.lookups import Where
from controlplane.models.statements import CLUSTER_CLOCK
from scheduler.model.history import NEWEST, Mistake, Values
from scheduler.predict.expected_start import mistakes
from scheduler.predict.run_times import Spread

TOLD = ("workload", "told_low", "told_median", "told_high")


def told(uids: Iterable[str]) -> dict[str, Spread]:
    """The expected start of each of these that waits and has one. One statement for 10,000 of them.

    The cluster's clock has gone on since it was worked out: what is over of an interval is left out.
    """
    out: dict[str, Spread] = {}
    for part in bulk.chunks([UUID(uid) for uid in uids]):
        waits = {"waited__isnull": True, "told_high__isnull": False, "workload__among": part}
        for uid, low, median, high, now in bulk.select(StartForecast, TOLD, waits, extra=(CLUSTER_CLOCK,)):
            if high >= now:
                out[str(uid)] = Spread(max(low, now), max(median, now), high)
    return out


def worked_out(uid: UUID) -> str | None:
    """When what is told of one that waits was worked out, by the cluster's clock; None: it has not been."""
    waits: Where = {"workload": uid, "waited__isnull": True}
    return next((iso(at) for (at,) in bulk.select(StartForecast, ("told_at",), waits)), None)


def shown(spread: Spread) -> dict[str, Any]:
    """An expected start as the API shows it."""
    ends = {"low": spread.low, "median": spread.median, "high": spread.high}
    return {name: iso(at) for name, at in ends.items()} | {"cluster_seconds": ends}


def learnt() -> tuple[Values, ...]:
    """By how much the newest predictions were off, for `History.mistakes`. One statement."""
    known, newest = {"waited__isnull": False}, ("-ended_at", "workload")
    rows = bulk.select(StartForecast, ("low", "median", "high", "waited"), known, order=newest, limit=NEWEST)
    return mistakes(Mistake(*row) for row in rows)
