"""Parts of a service's days, as they go from what reads its windows to what notes them."""

from dataclasses import dataclass
from uuid import UUID

from autoscaler.standings import Promise

DAY = 86_400.0  # s


@dataclass(frozen=True, slots=True)
class Stretch:
    """Minutes of one service, of one day, that are still to be noted; cluster clock."""

    workload: UUID
    promise: Promise
    p95_seconds: float | None
    phase: str  # now
    since: float
    until: float

    @property
    def day(self) -> int:
        """Its start."""
        return int(self.since // DAY * DAY)
