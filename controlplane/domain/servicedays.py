"""Parts of a service's days, as they go from what reads its windows to what notes them."""

from dataclasses import dataclass
from uuid import UUID

from autoscaler.latency import ANSWER
from autoscaler.sla import Standing
from autoscaler.standings import Promise

DAY = 86_400.0  # s
# The columns of a day's row that count the minutes of each standing.
MINUTES = {
    Standing.MET: "met",
    Standing.AT_RISK: "at_risk",
    Standing.VIOLATED: "violated",
    Standing.UNKNOWN: "unknown",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Minutes of one service, of one day, that are still to be noted; cluster clock."""

    workload: UUID
    promise: Promise
    p95_seconds: float | None
    phase: str  # now
    since: float
    until: float
    may_sleep: bool = False  # whether it may have no replica while no request comes
    p95_of: str = ANSWER  # what the latency is measured on

    @property
    def day(self) -> int:
        """Its start."""
        return int(self.since // DAY * DAY)
