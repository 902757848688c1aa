"""What a replay knows of a service's requests: how often they come, and how long a replica takes for one."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.cluster.serving.run import Replica, Setup
from controlplane.cluster.serving.traffic import Drawn, Rate, Sizes, group
from controlplane.cluster.work import Work


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Requests per second as they were measured: `rates` at `times` (ascending, seconds), straight lines between.

    Before the first and after the last time the rate is the first and the last one. key: of its random numbers.
    """

    key: str
    times: tuple[float, ...]
    rates: tuple[float, ...]
    rollout: float = 0.0  # the traffic is there from the first replica on

    @property
    def base(self) -> float:
        """The mean of the measured rates."""
        return sum(self.rates) / len(self.rates)

    def at(self, at: float) -> float:
        """Requests per second at this time."""
        i = bisect_right(self.times, at)
        if i == 0 or i == len(self.times):
            return self.rates[min(i, len(self.rates) - 1)]
        part = (at - self.times[i - 1]) / (self.times[i] - self.times[i - 1])
        return self.rates[i - 1] + part * (self.rates[i] - self.rates[i - 1])


@dataclass(frozen=True, slots=True)
class Service:
    """The requests of one service and what one of its replicas does with them; wherever a replica is, it does the same.

    seconds: of a request of mean size. slots: requests, or batches, that a replica serves at once. batch, growth: see
    Setup. objective: seconds within which a request is on time; None: any answer is. since: when its first replica
    ran, if that was before the replay. is_scaled: the autoscaler decides its replicas; else they are as recorded.
    """

    rate: Rate | Measured
    seconds: float
    slots: int = 1
    batch: int = 1
    growth: float = 0.0
    sizes: Sizes = Sizes()
    objective: float | None = None
    since: float | None = None
    is_scaled: bool = False

    @staticmethod
    def of(work: Work, since: float | None = None, *, is_scaled: bool = False) -> "Service | None":
        """A service of the simulated cluster; None of one without traffic."""
        if work.rate is None:
            return None
        profile = work.service
        return Service(
            rate=work.rate,
            seconds=profile.service_seconds,
            slots=profile.parallel // profile.batch,
            batch=profile.batch,
            growth=profile.growth or 0.0,
            sizes=profile.sizes,
            objective=work.objective,
            since=since,
            is_scaled=is_scaled,
        )

    @property
    def setup(self) -> Setup:
        """What the queue is told."""
        return Setup(self.batch, self.growth, objective=self.objective)

    def traffic(self, since: float) -> Drawn:
        """Its requests when the first replica runs at this time: the same in every replay."""
        together = group(self.rate.base, self.seconds) if self.batch == 1 else 1
        return Drawn(self.rate, self.sizes, since, together)

    def replicas(self, names: Sequence[str]) -> list[Replica]:
        """Replicas of these names."""
        return [Replica(name, self.slots, self.seconds) for name in names]
