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

    wake_seconds: float = 2.0  # until a replica on standby answers, its borrower's leaving included
    host_wake_seconds: float = 10.0  # the same, once its borrower has left, where its weights wait in host memory
    headroom: float = ALONE.headroom  # without standby: replicas on top of those needed, as a part of them

    def constants(self, *, has_standby: bool = False, is_slow: bool = False) -> Constants:
        """The law's constants; of a service with replicas on standby those of `STANDBY`.

        is_slow: the next replica that would wake has its weights in host memory, so load is looked for further ahead.
        """
        if has_standby:
            fall = self.fall_seconds or STANDBY.fall
            later = max(0.0, self.host_wake_seconds - self.wake_seconds) if is_slow else 0.0
            horizon = STANDBY.horizon + later
            return replace(STANDBY, horizon=horizon, fall=fall, young=self.young_seconds, gap=self.stale_seconds)
        return Constants(
            horizon=self.horizon_seconds,
            part=self.wait_ratio,
            tail=self.tail,
            queue_seconds=self.queue_seconds,
            fall=self.fall_seconds,
            takes_all=False,
            young=self.young_seconds,
            gap=self.stale_seconds,
            longest=ALONE.longest,
            headroom=self.headroom,
        )
