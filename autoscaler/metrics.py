"""What is measured of the services: the whole input of `scale` beside the snapshot. None = not known, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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

    @property
    def rate_per_replica(self) -> float | None:
        """Requests per second that one replica took."""
        if not self.replicas or self.requests_per_second is None:
            return None
        return self.requests_per_second / self.replicas


@dataclass(frozen=True, slots=True)
class Objective:
    """What a service promises: p95 latency in seconds, the part (0..1) of requests within it, over which time."""

    p95_seconds: float
    availability: float = 0.999
    window_seconds: float = 28 * 86_400.0

    def __post_init__(self) -> None:
        if self.p95_seconds <= 0:
            raise ValueError(f"objective: p95 is {self.p95_seconds} s, must be > 0")
        if not 0 < self.availability < 1:
            raise ValueError(f"objective: availability is {self.availability}, must be a ratio between 0 and 1")


@dataclass(frozen=True, slots=True)
class ServiceMetrics:
    """One service: its samples, oldest first, and when its number of workers was last changed.

    samples should reach back settings.down_seconds at least; what is older than settings.learn_seconds is not used.
    rate_per_replica: most requests per second of one replica within the objective, where it is known from a profile.
    """

    workload: str
    objective: Objective | None
    samples: tuple[Sample, ...] = ()
    scaled_at: float | None = None
    rate_per_replica: float | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """All that is measured."""

    services: Mapping[str, ServiceMetrics] = field(default_factory=dict)
