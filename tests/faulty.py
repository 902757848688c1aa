"""A cluster whose answers get lost, repeated, reordered and late: a fake at the port, to test the code above it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controlplane.cluster.port import Address, Cluster, ClusterUnreachable, LogLine, Note, Observation, PodSpec


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each fault is, per call. They are F2, F3, F4, F8 and F9 of docs/promises.md."""

    unreachable: float = 0.05  # the call never arrives
    answer_lost: float = 0.05  # it takes effect, and raises all the same
    twice: float = 0.05  # a command arrives twice
    stale: float = 0.1  # an old observation once more, old cursor included
    gap: float = 0.05  # changes are left out; a full observation follows within `gap_calls`
    full: float = 0.05  # the cursor is said to be too old
    repeated: float = 0.1  # pods stand in the observation twice
    reordered: float = 0.2
    gap_calls: int = 3


class FaultyCluster:
    """The port `Cluster` over another one. Never lies for good: a later call gives the truth."""

    commands_at_once = 1

    def __init__(self, cluster: Cluster, rng: np.random.Generator, faults: Faults | None = None) -> None:
        self.cluster = cluster
        self.faults = faults or Faults()
        self.counts: dict[str, int] = {}
        self._rng = rng
        self._last: Observation | None = None
        self._calls_in_gap: int | None = None

    def now(self) -> float:
        return self.cluster.now()

    def observe(self, cursor: str | None) -> Observation:
        self._may_be_unreachable()
        if self._happens("stale", self._last is not None) and self._last is not None:
            return self._last
        cursor = self._after_gap(cursor)
        if self._happens("full", cursor is not None):
            cursor = None
        found = self.cluster.observe(cursor)
        self._may_lose_the_answer()
        self._last = found
        return self._garbled(found)

    def on_news(self, tell: Callable[[], None]) -> None:
        self.cluster.on_news(tell)

    def start(self, pods: Sequence[PodSpec]) -> None:
        self._command(lambda: self.cluster.start(pods))

    def prepare(self, pods: Sequence[PodSpec], *, starting: Collection[str] = ()) -> None:
        self._command(lambda: self.cluster.prepare(pods, starting=starting))

    def publish(self, notes: Sequence[Note]) -> None:
        self._command(lambda: self.cluster.publish(notes))

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace_seconds: float) -> None:
        self._command(lambda: self.cluster.stop(workload, attempt, ranks, grace_seconds))

    def resize(self, workload: str, attempt: int, rank: int, cpu_milli: int, memory: int) -> None:
        self._command(lambda: self.cluster.resize(workload, attempt, rank, cpu_milli, memory))

    def held(self) -> frozenset[tuple[str, int]]:
        return self.cluster.held()

    def limit(self, workload: str, attempt: int, ranks: Sequence[int], milli: int) -> None:
        self._command(lambda: self.cluster.limit(workload, attempt, ranks, milli))

    def rotate(self, workload: str, attempt: int, ranks: Sequence[int], *, on: bool) -> None:
        self._command(lambda: self.cluster.rotate(workload, attempt, ranks, on=on))

    def offload(
        self, workload: str, attempt: int, ranks: Sequence[int], memory: int, weights: int, *, on: bool
    ) -> None:
        self._command(lambda: self.cluster.offload(workload, attempt, ranks, memory, weights, on=on))

    def keep_address(self, address: Address, *, on: bool) -> None:
        self._command(lambda: self.cluster.keep_address(address, on=on))

    def guard(self, address: Address, least: int) -> None:
        self._command(lambda: self.cluster.guard(address, least))

    def cordon(self, node: str, on: bool) -> None:
        self._command(lambda: self.cluster.cordon(node, on))

    def logs(
        self, workload: str, attempt: int, rank: int | None, tail: int, since: float | None
    ) -> tuple[LogLine, ...]:
        self._may_be_unreachable()
        return self.cluster.logs(workload, attempt, rank, tail, since)

    def _command(self, call: Callable[[], None]) -> None:
        self._may_be_unreachable()
        call()
        if self._happens("twice"):
            call()
        self._may_lose_the_answer()

    def _garbled(self, found: Observation) -> Observation:
        pods = found.pods
        if self._happens("gap", not found.is_full and bool(pods)):
            pods = tuple(p for p in pods if self._rng.random() < 0.5)
            self._calls_in_gap = self._calls_in_gap or 0
        if self._happens("repeated", bool(pods)):
            pods = (*pods, *pods)
        if self._happens("reordered", len(pods) > 1):
            pods = tuple(pods[i] for i in self._rng.permutation(len(pods)))
        return replace(found, pods=pods)

    def _after_gap(self, cursor: str | None) -> str | None:
        """A watch that lost something ends in "too old" before long, as Kubernetes' does with 410."""
        if self._calls_in_gap is None:
            return cursor
        self._calls_in_gap += 1
        if self._calls_in_gap < self.faults.gap_calls:
            return cursor
        self._calls_in_gap = None
        return None

    def _may_be_unreachable(self) -> None:
        if self._happens("unreachable"):
            raise ClusterUnreachable("no route to the cluster")

    def _may_lose_the_answer(self) -> None:
        if self._happens("answer_lost"):
            raise ClusterUnreachable("the connection was reset")

    def _happens(self, fault: str, can: bool = True) -> bool:
        happens = can and bool(self._rng.random() < getattr(self.faults, fault))
        self.counts[fault] = self.counts.get(fault, 0) + happens
        return happens
