"""What was used: GPU time by team or workload. milli-GPU seconds, cluster clock."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from controlplane.models import NodePool, Usage

SECONDS_PER_HOUR = 3600
MILLI = 1000


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Held and computed milli-GPU seconds of one team or workload, and what they cost at the pools' prices."""

    team: str
    colour: int
    name: str
    user: str
    workload: UUID | None
    held: int
    computed: int
    cost: Decimal

    @property
    def idle(self) -> int:
        """Held and not computing."""
        return self.held - self.computed

    @property
    def computed_part(self) -> float | None:
        """Part of the held time that computed."""
        return self.computed / self.held if self.held else None


def by_team(since: float, until: float, names: Collection[str] | None = None) -> tuple[UsageRow, ...]:
    """One row a team (None: all teams), most held first. Two queries."""
    return _rows(since, until, names, ("team__name", "team__colour"))


def by_workload(
    since: float, until: float, names: Collection[str] | None = None, limit: int = 100
) -> tuple[UsageRow, ...]:
    """The workloads of these teams that held most. Two queries."""
    return _rows(since, until, names, ("team__name", "team__colour", "name", "user", "workload"))[:limit]


def _rows(since: float, until: float, names: Collection[str] | None, keys: tuple[str, ...]) -> tuple[UsageRow, ...]:
    prices = dict(NodePool.objects.values_list("name", "price_per_gpu_hour"))
    found = Usage.objects.filter(hour__gte=max(0, int(since)), hour__lt=max(0, int(until)))
    if names is not None:
        found = found.filter(team__name__in=names)
    sums: dict[tuple[object, ...], tuple[int, int, Decimal]] = {}
    for row in found.order_by().values(*keys, "pool").annotate(h=Sum("held"), c=Sum("computed")):
        key = tuple(row[k] for k in keys)
        held, computed, cost = sums.get(key, (0, 0, Decimal(0)))
        price = prices.get(row["pool"], Decimal(0)) * Decimal(row["h"]) / (MILLI * SECONDS_PER_HOUR)
        sums[key] = (held + row["h"], computed + row["c"], cost + price)
    rows = [_row(dict(zip(keys, key, strict=True)), *values) for key, values in sums.items()]
    return tuple(sorted(rows, key=lambda r: (-r.held, r.team, r.name)))


def _row(key: dict[str, object], held: int, computed: int, cost: Decimal) -> UsageRow:
    uid = key.get("workload")
    return UsageRow(
        team=str(key["team__name"]),
        colour=int(str(key["team__colour"])),
        name=str(key.get("name", "")),
        user=str(key.get("user", "")),
        workload=uid if isinstance(uid, UUID) else None,
        held=held,
        computed=computed,
        cost=cost,
    )
