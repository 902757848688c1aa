"""When waiting workloads should start, as loops/predict_starts.py last worked it out; and what past ones teach.

Plain SQL (models/bulk.py): of all that waits, for every page of lists.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from controlplane.jobspec.quantities import iso
from controlplane.models import StartForecast, bulk
from scheduler.model.history import NEWEST, Mistake, Values
from scheduler.predict.expected_start import mistakes
from scheduler.predict.run_times import Spread

_NOW = '(SELECT "c"."now" FROM "controlplane_clusterstate" "c" ORDER BY "c"."id" LIMIT 1)'
TOLD = ("workload", "told_low", "told_median", "told_high")


def told(uids: Iterable[str]) -> dict[str, Spread]:
    """The expected start of each of these that waits and has one. One statement for 10,000 of them.

    The cluster's clock has gone on since it was worked out: what is over of an interval is left out.
    """
    out: dict[str, Spread] = {}
    for part in bulk.chunks([UUID(uid) for uid in uids]):
        named, keys = bulk.among(StartForecast, "workload", part)
        where = f'WHERE "waited" IS NULL AND "told_high" >= {_NOW} AND {named}'
        for uid, low, median, high, now in bulk.select(StartForecast, TOLD, where, keys, extra=(_NOW,)):
            out[str(uid)] = Spread(max(low, now), max(median, now), high)
    return out


def shown(spread: Spread) -> dict[str, Any]:
    """An expected start as the API shows it."""
    ends = {"low": spread.low, "median": spread.median, "high": spread.high}
    return {name: iso(at) for name, at in ends.items()} | {"cluster_seconds": ends}


def learnt() -> tuple[Values, ...]:
    """By how much the newest predictions were off, for `History.mistakes`. One statement."""
    newest = f'WHERE "waited" IS NOT NULL ORDER BY "ended_at" DESC, "workload" LIMIT {NEWEST}'
    rows = bulk.select(StartForecast, ("low", "median", "high", "waited"), newest, ())
    return mistakes(Mistake(*row) for row in rows)
