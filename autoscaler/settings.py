"""The scaling policy's numbers, with their reasons. Edited as versions in the admin."""

from dataclasses import dataclass, replace

from autoscaler.law import ALONE, STANDBY, Constants


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `scale`; times are cluster-clock seconds, ratios are 0..1. The defaults are the law's `ALONE`."""

    horizon_seconds: float = ALONE.horizon  # beyond a replica's start: load is predicted so far ahead
    wait_ratio: float = ALONE.part  # of the wait that the objective allows: what may be used of it
    tail: float = ALONE.tail  # slots for the longest waits: how rarely a request may wait longer
    queue_seconds: float = ALONE.queue_seconds  # a queue may take so long to be worked off, at least
    fall_seconds: float = ALONE.fall  # fewer must have been wanted for so long; 0: three starts, with standby 30 s
    young_seconds: float = ALONE.young  # of a service, and after a gap in its metrics: it does not get smaller
    start_seconds: float = 60.0  # until a replica serves, before it is learned of this service
    stale_seconds: float = ALONE.gap  # an older scrape says nothing of now, and a longer gap begins anew: four scrapes

    def constants(self, *, has_standby: bool = False) -> Constants:
        """The law's constants; of a service with replicas on standby those of `STANDBY`."""
        if has_standby:
            fall = self.fall_seconds or STANDBY.fall
            return replace(STANDBY, fall=fall, young=self.young_seconds, gap=self.stale_seconds)
        return Constants(
            horizon=self.horizon_seconds,
            part=self.wait_ratio,
            tail=self.tail,
            queue_seconds=self.queue_seconds,
            fall=self.fall_seconds,
            takes_all=False,
            young=self.young_seconds,
            gap=self.stale_seconds,
        )
