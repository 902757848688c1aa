"""The port `Metrics` with what a story says was measured, the same on every cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autoscaler.observed import Scrape, counted
from controlplane.cluster.port import PodUse, RevisionUse, TrainingUse, WorkerUse
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.models import Placement, Workload
from controlplane.queries.scheduling.scaling import WINDOW_SECONDS
from gpushare.gpu import WHOLE


@dataclass
class Fed(Unmeasured):
    """Values by workload id, measured just now; the rest is not known."""

    now: Callable[[], float]
    served: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    used: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    stepped: dict[str, Mapping[int, Sequence[float]]] = field(default_factory=dict)
    batched: dict[str, Mapping[int, Sequence[float]]] = field(default_factory=dict)

    def scrapes(self, workloads: Sequence[str]) -> dict[str, Scrape]:
        return {uid: self._scrape(uid) for uid in workloads if "waiting" in self.served.get(uid, ())}

    def revisions(self, promises: Mapping[str, tuple[float, float]]) -> tuple[RevisionUse, ...]:
        return tuple(
            RevisionUse(uid, revision, *counts)
            for uid in promises
            for revision, counts in self.served.get(uid, {}).get("revisions", {}).items()
        )

    def pods(self, workloads: Sequence[str]) -> tuple[PodUse, ...]:
        return tuple(self._pod(uid) for uid in workloads if uid in self.used)

    def training(self, workloads: Sequence[str]) -> tuple[TrainingUse, ...]:
        by_nodes = tuple(self._steps(uid) for uid in workloads if uid in self.stepped)
        return by_nodes + tuple(self._batches(uid) for uid in workloads if uid in self.batched)

    def _batches(self, uid: str) -> TrainingUse:
        """Of a training by its batch: seconds of a step, and the noise of its gradients."""
        workload = Workload.objects.get(pk=uid)
        examples = workload.batch or 0
        seconds, noise = self.batched[uid][examples]
        rate = examples / seconds
        return TrainingUse(uid, workload.attempt, 7, float(seconds), rate, 0.0, 0.05, gradient_noise=float(noise))

    def _steps(self, uid: str) -> TrainingUse:
        """Of a training by how many nodes its workers are on: seconds of a step, and the part of the exchange."""
        attempt = Workload.objects.get(pk=uid).attempt
        seats = Placement.objects.filter(workload=uid, attempt=attempt, state="Bound")
        nodes = set(seats.values_list("node", flat=True))
        seconds, sync = self.stepped[uid][len(nodes)]
        longer = max(self.slow.get(node, 1.0) for node in nodes)
        return TrainingUse(uid, attempt, 7, float(seconds) * longer, None, 0.0, float(sync))

    def workers(self, workloads: Sequence[str]) -> tuple[WorkerUse, ...]:
        return tuple(one for uid in workloads if uid in self.stepped and self.slow for one in self._workers(uid))

    def _workers(self, uid: str) -> Iterator[WorkerUse]:
        """Each computes for its own time, and waits for the slowest."""
        use = self._steps(uid)
        seats = Placement.objects.filter(workload=uid, attempt=use.attempt, state="Bound").order_by("rank")
        pairs = list(seats.values_list("rank", "node"))
        longest = max(self.slow.get(node, 1.0) for _, node in pairs)
        for rank, node in pairs:
            own = (1 - (use.sync_ratio or 0.0)) * self.slow.get(node, 1.0) / longest
            yield WorkerUse(uid, use.attempt, rank, use.step_seconds, 0.0, 1 - own, None)

    def _scrape(self, uid: str) -> Scrape:
        """Of a service whose replicas take one request at once, for so long, or for so much of the GPU they may use."""
        told = self.served[uid]
        came = WINDOW_SECONDS * float(told["requests_per_second"])
        part = Workload.objects.get(pk=uid).share_limit / WHOLE
        seconds = float(told["gpu_seconds"]) / part if "gpu_seconds" in told else float(told["request_seconds"])
        running = int(told.get("running", 1))
        counts = counted(np.array([seconds]), np.array([round(came)]))
        return Scrape(self.now(), WINDOW_SECONDS, came, came * seconds, counts, int(told["waiting"]), running, running)

    def _pod(self, uid: str) -> PodUse:
        told = self.used[uid]
        return PodUse(uid, Workload.objects.get(pk=uid).attempt, 0, told.get("duty"), told.get("cpu_milli"), None, None)
