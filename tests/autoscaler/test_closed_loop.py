"""The autoscaler and a service simulated request by request: what users of the service get.

The judge is controlplane/cluster/serving, which shares no formula with the autoscaler: services of fixed sizes, of
generated tokens, and in batches. Bounds are what holds today, a little below what was seen.
"""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.law import State
from autoscaler.metrics import Metrics, Objective, Sample, ServiceMetrics
from autoscaler.scale import scale
from autoscaler.settings import Settings
from autoscaler.sla import attained
from controlplane.cluster.port import PodPhase, PodSeen, PodSpec
from controlplane.cluster.simulated import START, SimulatedCluster
from controlplane.simulator.worlds.profiles import PROFILES, named
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.workload import Gang
from tests.autoscaler.services import OBJECTIVE, SERVICE

NODES = (
    Node("a", "pool", "A100", 8, 81_920, 96_000, 1_048_576),
    Node("b", "pool", "A100", 8, 81_920, 96_000, 1_048_576),
)
ROUND = 15.0


class Loop:
    """A service whose replicas start as soon as they are wanted; nobody competes for GPUs."""

    def __init__(
        self, rate: dict[str, float], replicas: int, most: int, profile: str = "", objective: Objective = OBJECTIVE
    ) -> None:
        self.cluster = SimulatedCluster(NODES, profiles=PROFILES if profile else None)
        self.file: dict[str, Any] = {
            "type": "inference",
            "objective": {"p95_seconds": objective.p95_seconds, "of": objective.of},
            "simulated": {"rate": rate, "profile": profile},
        }
        self.objective = objective
        self.gang = Gang(replicas, 1, most)
        self.samples: list[Sample] = []
        self.changes: list[tuple[float, int]] = []
        self.state: State | None = None
        self.next_rank = 0
        self._start()

    def run(self, seconds: float, is_scaling: bool = True) -> None:
        """Rounds of a quarter of a minute."""
        end = self.cluster.now() + seconds
        while self.cluster.now() < end:
            self.cluster.advance(self.cluster.now() + ROUND)
            self._measure()
            if is_scaling:
                self._scale()

    def _measure(self) -> None:
        running = sum(p.phase == PodPhase.RUNNING for p in self.cluster.observe(None).pods)
        for use in self.cluster.services(["s"]):
            requests, over = use.requests, use.over_objective
            seen = Sample(use.at, ROUND, running, use.requests_per_second, use.p95_seconds, requests, over, use.queue)
            self.samples.append(seen)

    def _scale(self) -> None:
        at = self.cluster.now()
        snapshot = Snapshot.build(at, (), (), (), (replace(SERVICE, gang=self.gang),))
        running = sum(p.phase == PodPhase.RUNNING for p in self.live.values())
        scrape = self.cluster.scrapes(["s"]).get("s")
        measured = ServiceMetrics("s", self.objective, scrape, self.state, running, 30.0)
        found = scale(snapshot, Metrics({"s": measured}), Settings())
        self.state = found.states.get("s", self.state)
        for decision in found.decisions:
            self.cluster.stop("s", 1, sorted(self.live)[decision.workers :], 5.0)
            self.gang = replace(self.gang, count=decision.workers)
            self.changes.append((at, decision.workers))
            self._start()

    def attained(self, since: float = 0.0) -> float:
        """The part of the requests that were answered in time, from so many seconds after the start on."""
        later = [sample for sample in self.samples if sample.at > START + since]
        found = attained(later, self.cluster.now(), self.cluster.now() - START - since)
        assert found is not None
        return found

    @property
    def live(self) -> dict[int, PodSeen]:
        """Replicas that run or will, by rank."""
        pods = self.cluster.observe(None).pods
        return {p.rank: p for p in pods if p.phase in (PodPhase.PENDING, PodPhase.RUNNING)}

    def _start(self) -> None:
        taken = {(p.node, p.gpus[0]) for p in self.live.values()}
        free = [(node, gpu) for node in "ab" for gpu in range(8) if (node, gpu) not in taken]
        for node, gpu in free[: max(0, self.gang.count - len(taken))]:
            pod = PodSpec("s", 1, self.next_rank, 1, node, (gpu,), 1000, 0, 0, 0, "nlp", self.file)
            self.cluster.start([pod])
            self.next_rank += 1  # a rank is never used twice


RISING = {"base": 160.0, "amplitude": 0.9, "period": 7200.0, "burst_part": 0.0}  # a replica does 80 requests/s
OURS = ["chat-like", "vision-like", "ranker-like", "speech-like-service"]
STARTED = 600.0  # s: the traffic is there before the first replica


def test_a_service_follows_its_load_up_and_down_and_keeps_its_objective() -> None:
    loop = Loop(RISING, replicas=2, most=12)
    loop.run(7200.0)
    numbers = [workers for _, workers in loop.changes]
    assert max(numbers) >= 4
    assert loop.gang.count < max(numbers)
    assert loop.attained() > 0.99, numbers


def test_without_scaling_the_same_service_breaks_its_objective() -> None:
    loop = Loop(RISING, replicas=2, most=12)
    loop.run(7200.0, is_scaling=False)
    assert loop.attained() < 0.7


@pytest.mark.parametrize("profile", OURS)
def test_what_the_law_was_not_made_for_keeps_its_objective_while_load_rises_and_falls(profile: str) -> None:
    """Sizes that differ, tokens, batches: the law takes each service for M/D/c."""
    rate = {**RISING, "base": 2.0 * named(profile).max_per_second}
    loop = Loop(rate, replicas=2, most=12, profile=profile)
    loop.run(7200.0)
    assert loop.attained(STARTED) > 0.99, loop.changes


@pytest.mark.parametrize("profile", OURS)
def test_a_step_to_three_times_the_load_is_late_for_minutes(profile: str) -> None:
    """Detection, a cold start and steps of half as many replicas: about one request in sixteen of two hours is late.

    Of replicas that batch there are more than the slots ask for, so a step is late for less.
    """
    rate = {"base": 1.3 * named(profile).max_per_second, "amplitude": 0.0, "burst": 3.0, "burst_part": 0.1}
    loop = Loop(rate, replicas=3, most=12, profile=profile)
    loop.run(7200.0)
    assert 0.92 < loop.attained(STARTED) < 0.995, loop.changes
    minutes = [s for s in loop.samples if s.at > START + STARTED and (s.over or 0) > 0.05 * (s.requests or 1)]
    assert ROUND * len(minutes) < 600.0  # two bursts of five minutes each


def test_a_steady_service_is_left_alone() -> None:
    """It was overrun before its second replica came, and has more replicas than it needs until that is forgotten."""
    loop = Loop({"base": 100.0, "amplitude": 0.0, "burst_part": 0.0}, replicas=2, most=12)
    loop.run(3600.0)
    assert len(loop.changes) <= 2, loop.changes
    assert loop.attained(STARTED) == 1.0
    assert loop.gang.count <= 5  # two would do
