"""Worlds of one service for the autoscaler's tests."""

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.decision import Scale
from autoscaler.metrics import Metrics, Objective, Sample, ServiceMetrics
from autoscaler.queueing import Replica
from autoscaler.scale import scale
from autoscaler.settings import Settings
from scheduler.snapshot import Snapshot
from scheduler.workload import Ask, Gang, Kind, Phase, Workload

AT = 1_767_225_600.0 + 86_400.0
OBJECTIVE = Objective(p95_seconds=0.25, availability=0.99)
REPLICA = Replica(seconds=0.05, at_once=4)  # what a replica can really do: 80 requests/s at most
SERVICE = Workload(
    id="s", name="chat", team="nlp", kind=Kind.INFERENCE, ask=Ask(gpus=1), gang=Gang(2, 1, 8), phase=Phase.RUNNING
)


def sample(at: float, rate: float | None, replicas: int = 2, p95: float | None = -1.0, queue: int = 0) -> Sample:
    """One sample of a quarter of a minute; p95 -1 is what such replicas do at such a rate."""
    if p95 is not None and p95 < 0:
        p95 = None if rate is None else min(REPLICA.p95_seconds(rate, replicas), 30.0)
    return Sample(at, 15.0, replicas, rate, p95, queue=queue)


def steady(rate: float | None, seconds: float = 600.0, replicas: int = 2, until: float = AT) -> tuple[Sample, ...]:
    """Samples of a rate that does not change."""
    count = int(seconds / 15)
    return tuple(sample(until - 15.0 * (count - 1 - i), rate, replicas) for i in range(count))


def decide(
    samples: Sequence[Sample],
    current: int = 2,
    scaled_at: float | None = None,
    at: float = AT,
    gang: Gang = SERVICE.gang,
) -> Scale | None:
    """What `scale` decides for the service, wanted at `current` workers now."""
    service = replace(SERVICE, gang=replace(gang, count=current))
    snapshot = Snapshot.build(at, (), (), (), (service,))
    known = {"s": ServiceMetrics("s", OBJECTIVE, tuple(samples), scaled_at)} if samples else {}
    decisions = scale(snapshot, Metrics(known), Settings())
    assert len(decisions) <= 1
    return decisions[0] if decisions else None
