"""What is measured of the services: the whole input of `scale` beside the snapshot. None = not known, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.latency import ANSWER, MEASURES, Within
from autoscaler.law import State
from autoscaler.limits import Limits
from autoscaler.native import Native
from autoscaler.observed import Scrape, Signal
from autoscaler.profile import Profile


@dataclass(frozen=True, slots=True)
class Sample:
    """One service over [at - seconds, at], on the cluster's clock. replicas: those that answered in it."""

    at: float
    seconds: float
    replicas: int | None
    requests_per_second: float | None
    p95_seconds: float | None
    requests: int | None = None
    over: int | None = None  # requests slower than the objective, or failed
    queue: int | None = None  # requests that wait at the end


@dataclass(frozen=True, slots=True)
class Objective:
    """What a service promises: a latency in seconds, the part (0..1) of requests within it, over which time.

    of: what the latency is measured on, one of latency.MEASURES.
    """

    p95_seconds: float
    availability: float = 0.999
    window_seconds: float = 28 * 86_400.0
    of: str = ANSWER

    def __post_init__(self) -> None:
        if self.p95_seconds <= 0:
            raise ValueError(f"objective: p95 is {self.p95_seconds} s, must be > 0")
        if not 0 < self.availability < 1:
            raise ValueError(f"objective: availability is {self.availability}, must be a ratio between 0 and 1")
        if self.of not in MEASURES:
            raise ValueError(f"objective: it is of {self.of}, must be of {' or '.join(MEASURES)}")

    @property
    def within(self) -> Within:
        """Its latency."""
        return Within(self.p95_seconds, self.of)


@dataclass(frozen=True, slots=True)
class ServiceMetrics:
    """One service: what was measured just now, and what the law remembers of the looks before.

    signal: what the queue in front of it tells now, between two scrapes. ready: replicas that serve. start_seconds: of
    a replica, from its place to its running, as the first one took.
    """

    workload: str
    objective: Objective | None
    scrape: Scrape | None = None
    state: State | None = None
    ready: int = 0
    start_seconds: float | None = None
    signal: Signal | None = None
    idle_after: float | None = None  # s without requests until it may have no replica; None: it always has one
    loaded: tuple[int, ...] = ()  # of a service with standby: ranks whose pods run, those that are asleep included
    native: Native | None = None  # how Kubernetes' own autoscaler scales it; None: Weft does
    limits: Limits | None = None  # of one whose replicas' limit may be raised
    profile: Profile | None = None  # what its owner says of its requests: a start


@dataclass(frozen=True, slots=True)
class Metrics:
    """All that is measured."""

    services: Mapping[str, ServiceMetrics] = field(default_factory=dict)
