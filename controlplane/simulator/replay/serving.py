"""What a replay knows of a service's requests: how often they come, and how long a replica takes for one."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.latency import Within
from controlplane.cluster.serving.run import Replica, Setup
from controlplane.cluster.serving.traffic import Drawn, Rate, Sizes, group
from controlplane.cluster.work import Work
from gpushare.gpu import WHOLE


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
    Setup. objective: within what a request is on time; None: any answer is. since: when its first replica
    ran, if that was before the replay. is_scaled: the autoscaler decides its replicas; else they are as recorded.
    measured_at: the limit of its replicas, milli-GPU, at which `seconds` holds, 0: a limit makes no difference; with
    another one a request takes (measured_at / limit) ** effect times as long. limits: the least and the most of it
    by the job file, where it is raised.
    """

    rate: Rate | Measured
    seconds: float
    slots: int = 1
    batch: int = 1
    growth: float = 0.0
    sizes: Sizes = Sizes()
    objective: Within | None = None
    since: float | None = None
    is_scaled: bool = False
    measured_at: int = 0
    effect: float = 1.0
    limits: tuple[int, int] | None = None

    @staticmethod
    def of(
        work: Work,
        since: float | None = None,
        *,
        is_scaled: bool = False,
        guarantee: int = 0,
        limits: tuple[int, int] | None = None,
    ) -> "Service | None":
        """A service of the simulated cluster; None of one without traffic.

        guarantee: of its replicas' shares, milli-GPU, with which its times hold there; 0: they have whole GPUs.
        """
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
            measured_at=guarantee if limits else 0,
            limits=limits,
        )

    @property
    def setup(self) -> Setup:
        """What the queue is told."""
        return Setup(self.batch, self.growth, objective=self.objective)

    def traffic(self, since: float) -> Drawn:
        """Its requests when the first replica runs at this time: the same in every replay."""
        together = group(self.rate.base, self.seconds) if self.batch == 1 else 1
        return Drawn(self.rate, self.sizes, since, together)

    def replicas(self, names: Sequence[str], limit: int = 0, beside: int = 1) -> list[Replica]:
        """Replicas of these names, with this limit in milli-GPU (0: it makes no difference).

        beside: how many of them lie on one GPU, at most: they are busy together, so they divide it.
        """
        has = min(limit, WHOLE // beside)
        slower = (self.measured_at / has) ** self.effect if limit and self.measured_at else 1.0
        return [Replica(name, self.slots, self.seconds * slower) for name in names]
