"""Worlds of one service for the autoscaler's tests."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from autoscaler.decision import Scale
from autoscaler.metrics import Metrics, Objective, Sample, ServiceMetrics
from autoscaler.scale import scale
from autoscaler.settings import Settings
from controlplane.cluster.serving.run import Replica, Run, Setup, State
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment, Gang, Kind, Phase, ResourceRequest, Workload
from tests.service_requests.streams import constant

AT = 1_767_225_600.0 + 86_400.0
OBJECTIVE = Objective(p95_seconds=0.25, availability=0.99)
SERVICE = Workload(
    id="s",
    name="chat",
    team="nlp",
    kind=Kind.INFERENCE,
    ask=ResourceRequest(gpus=1),
    gang=Gang(2, 1, 8),
    phase=Phase.RUNNING,
)


@cache
def p95_seconds(rate: float, replicas: int) -> float | None:
    """What such replicas do at such a rate for long, request by request; each does 80 requests/s at most."""
    run = Run(constant(rate), Setup(), State.begin(0.0))
    run.change(0.0, [Replica(str(number), 4, 0.05) for number in range(replicas)])
    run.to(60.0)
    return run.window(30.0).p95_seconds


def sample(at: float, rate: float | None, replicas: int = 2, p95: float | None = -1.0, queue: int = 0) -> Sample:
    """One sample of a quarter of a minute; p95 -1 is what such replicas do at such a rate."""
    if p95 is not None and p95 < 0:
        p95 = None if rate is None else p95_seconds(float(f"{rate:.3g}"), replicas)
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
    placement: tuple[Assignment, ...] = (),
) -> Scale | None:
    """What `scale` decides for the service, wanted at `current` workers now."""
    service = replace(SERVICE, gang=replace(gang, count=current), placement=placement)
    snapshot = Snapshot.build(at, (), (), (), (service,))
    known = {"s": ServiceMetrics("s", OBJECTIVE, tuple(samples), scaled_at)} if samples else {}
    decisions = scale(snapshot, Metrics(known), Settings())
    assert len(decisions) <= 1
    return decisions[0] if decisions else None
