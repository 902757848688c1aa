"""What GPU time costs, at the node pools' present prices. milli-GPU seconds; prices are of a GPU-hour."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import QuerySet

from controlplane.models import NodePool, Usage

MILLI_SECONDS_PER_GPU_HOUR = 3_600_000
FREE = Decimal(0)


@dataclass(frozen=True, slots=True)
class Spent:
    """What was held, what of it computed, and what it cost."""

    held: int
    computed: int
    cost: Decimal

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(self.held + other.held, self.computed + other.computed, self.cost + other.cost)

    @property
    def idle(self) -> int:
        """Held and not computing. What harvests computes beyond what it is charged for: then nothing is."""
        return max(0, self.held - self.computed)

    @property
    def computed_ratio(self) -> float | None:
        """Part of the held time that computed."""
        return min(1.0, self.computed / self.held) if self.held else None


NOTHING = Spent(0, 0, FREE)


class Prices:
    """The pools' prices at one moment. One query."""

    def __init__(self) -> None:
        self._prices = dict(NodePool.objects.values_list("name", "price_per_gpu_hour"))

    def of(self, pool: str) -> Decimal:
        """Of a GPU-hour in this pool; nothing for one that is not there any more."""
        return self._prices.get(pool, FREE)

    def spent(self, pool: str, held: int, computed: int) -> Spent:
        """What this much in this pool cost."""
        return Spent(held, computed, self.of(pool) * Decimal(held) / MILLI_SECONDS_PER_GPU_HOUR)


def used(since: float, until: float, names: Collection[str] | None) -> QuerySet[Usage]:
    """What these teams (None: all) used in the hours that begin in [since, until) of the cluster's clock."""
    found = Usage.objects.filter(hour__gte=max(0, int(since)), hour__lt=max(0, int(until)))
    return found if names is None else found.filter(team__name__in=names)
