"""The scaling policy's numbers, with their reasons. Edited as versions in the admin."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `scale`; times are cluster-clock seconds, parts are 0..1."""

    target_ratio: float = 0.8  # of the objective: where p95 may be at the predicted load
    emergency_ratio: float = 0.9  # of the objective: p95 beyond it means too few replicas now
    emergency_step: float = 0.5  # of the replicas, added at once then
    down_ratio: float = 0.7  # of the objective: where p95 must still be with fewer replicas
    down_margin: float = 0.1  # more load than the highest seen must fit on what is left: noise must not bring it back
    slow_margin: float = 0.15  # a rate per replica this near to one that was too slow is not gone back to
    down_seconds: float = 300.0  # load must have been low for so long; Kubernetes' default as well
    down_coverage: float = 0.8  # of those seconds must be measured, or it is not known that load was low
    up_ratio: float = 1.0  # of the replicas, most that one decision adds,
    up_count: int = 4  # or this many, whichever is more (the Kubernetes default of the HPA)
    settle_seconds: float = 60.0  # replicas that were added need so long to start and to show in the metrics
    stale_seconds: float = 60.0  # an older sample says nothing of now: four scrapes
    lead_seconds: float = 60.0  # load is predicted so far ahead: start and model load of a replica
    trend_seconds: float = 300.0  # over which a trend is fitted
    trend_errors: float = 2.0  # standard errors by which a trend must differ from none
    learn_seconds: float = 3600.0  # how far back samples teach what a replica can do
