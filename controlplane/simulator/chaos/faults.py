"""A cluster seen through a bad line: observations come late, twice, out of order, or not at all."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.cluster.port import Cluster, ClusterUnreachable, Observation, PodSpec
from controlplane.simulator.replay.memory import Action
from scheduler.model.workload import ResourceRequest


@dataclass(frozen=True, slots=True)
class Odds:
    """How often each fault happens, per call, 0..1. old: an earlier observation is delivered again or late.

    whole: the cursor is too old and everything is listed. lost_answer: a command takes effect, but its answer
    is lost and it looks as if it had failed.
    """

    old: float = 0.15
    whole: float = 0.05
    unreachable: float = 0.03
    lost_answer: float = 0.03


class BadLine:
    """The commands and observations of `cluster`, with faults drawn from `generator`."""

    def __init__(self, cluster: Cluster, generator: np.random.Generator, odds: Odds) -> None:
        self._cluster = cluster
        self._generator = generator
        self._odds = odds
        self._delivered: deque[Observation] = deque(maxlen=6)

    def observe(self, cursor: str | None) -> Observation:
        """What changed since cursor, or something older. Raises ClusterUnreachable at times."""
        self._maybe_unreachable(self._odds.unreachable)
        if self._delivered and self._generator.random() < self._odds.old:
            return self._delivered[int(self._generator.integers(len(self._delivered)))]
        fresh = self._cluster.observe(None if self._generator.random() < self._odds.whole else cursor)
        self._delivered.append(fresh)
        return fresh

    def start(self, pods: Sequence[PodSpec]) -> None:
        """Create these pods. Raises ClusterUnreachable at times, before or after they are."""
        self._maybe_unreachable(self._odds.unreachable)
        self._cluster.start(pods)
        self._maybe_unreachable(self._odds.lost_answer)

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        """End these pods. Raises ClusterUnreachable at times, before or after it is done."""
        self._maybe_unreachable(self._odds.unreachable)
        self._cluster.stop(workload, attempt, ranks, grace_seconds)
        self._maybe_unreachable(self._odds.lost_answer)

    def tell(self, action: Action, ask: ResourceRequest) -> None:
        """What a command says to replicas that run: whether requests come to them, and where their weights go."""
        if action.verb == "offload":
            sizes = ask.memory, ask.on_device[1]
            self.offload(action.workload, action.attempt, action.ranks, *sizes, on=action.on)
        elif action.verb in ("wake", "sleep"):
            self.rotate(action.workload, action.attempt, action.ranks, on=action.verb == "wake")

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        """Have these replicas use so much of their device. Raises ClusterUnreachable at times."""
        self._maybe_unreachable(self._odds.unreachable)
        self._cluster.limit(workload, attempt, ranks, milli)
        self._maybe_unreachable(self._odds.lost_answer)

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        """Have requests come to these replicas, or not. Raises ClusterUnreachable at times."""
        self._maybe_unreachable(self._odds.unreachable)
        self._cluster.rotate(workload, attempt, ranks, on=on)
        self._maybe_unreachable(self._odds.lost_answer)

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        """Have these replicas' weights moved. Raises ClusterUnreachable at times."""
        self._maybe_unreachable(self._odds.unreachable)
        self._cluster.offload(workload, attempt, ranks, memory, weights, on=on)
        self._maybe_unreachable(self._odds.lost_answer)

    def _maybe_unreachable(self, odds: float) -> None:
        if self._generator.random() < odds:
            raise ClusterUnreachable("the line is bad")
