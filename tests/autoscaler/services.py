"""Worlds of one service for the autoscaler's tests."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from autoscaler.decision import Scale
from autoscaler.law import State
from autoscaler.metrics import Metrics, Objective, ServiceMetrics
from autoscaler.observed import Scrape, Signal, counted
from autoscaler.scale import Scaling, scale
from autoscaler.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Assignment, Gang, Kind, Phase, ResourceRequest, Workload

AT = 1_767_225_600.0 + 86_400.0
SECONDS, SLOTS = 0.05, 4  # of each request; requests that a replica takes at once: it does 80 requests/s
DEFAULTS = Settings()
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


def look(at: float, rate: float, waiting: int = 0, seconds: float = SECONDS) -> Scrape:
    """What is told at a moment of a service that answers all that comes at this rate."""
    came = rate * 15.0
    counts = tuple(came * n for n in counted(np.array([seconds])))
    running = round(rate * seconds)
    return Scrape(at, 15.0, came, came * seconds, counts, waiting, running, min(SLOTS, max(1, running)))


def looks(rate: float, count: int, until: float = AT) -> Iterator[Scrape]:
    """So many of them, 15 s apart, the last one at `until`."""
    for number in range(count):
        yield look(until - 15.0 * (count - 1 - number), rate)


def told(
    scrape: Scrape | None, state: State | None, current: int = 2, *, at: float | None = None,
    gang: Gang = SERVICE.gang, placement: tuple[Assignment, ...] = (), settings: Settings = DEFAULTS,
    signal: Signal | None = None,
) -> Scaling:  # fmt: skip
    """What a round says of the service, wanted at `current` workers now, all of which serve."""
    service = replace(SERVICE, gang=replace(gang, count=current), placement=placement)
    at = at if at is not None else AT if scrape is None else scrape.at
    known = ServiceMetrics("s", OBJECTIVE, scrape, state, ready=current, signal=signal)
    return scale(Snapshot.build(at, (), (), (), (service,)), Metrics({"s": known}), settings)


def decided(scaling: Scaling) -> Scale | None:
    """The one decision of a round, if any."""
    assert len(scaling.decisions) <= 1
    return scaling.decisions[0] if scaling.decisions else None


def followed(
    scrapes: Iterable[Scrape], current: int = 2, *, gang: Gang = SERVICE.gang, settings: Settings = DEFAULTS
) -> tuple[State | None, list[int]]:
    """The state after these scrapes, and how many replicas were wanted after each."""
    state, counts = None, []
    for scrape in scrapes:
        found = told(scrape, state, current, gang=gang, settings=settings)
        state, one = found.states.get("s", state), decided(found)
        current = current if one is None else one.workers
        counts.append(current)
    return state, counts
