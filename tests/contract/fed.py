"""The port `Metrics` with what a story says was measured, the same on every cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.cluster.port import PodUse, ServiceUse
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.models import Workload
from controlplane.queries.scheduling.scaling import WINDOW_SECONDS


@dataclass
class Fed(Unmeasured):
    """Values by workload id, measured just now; the rest is not known."""

    now: Callable[[], float]
    served: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    used: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def services(self, objectives: Mapping[str, float | None]) -> tuple[ServiceUse, ...]:
        return tuple(self._service(uid) for uid in objectives if uid in self.served)

    def pods(self, workloads: Sequence[str]) -> tuple[PodUse, ...]:
        return tuple(self._pod(uid) for uid in workloads if uid in self.used)

    def _service(self, uid: str) -> ServiceUse:
        told = self.served[uid]
        rate = float(told["requests_per_second"])
        p95 = float(told["p95_seconds"])
        return ServiceUse(uid, self.now(), WINDOW_SECONDS, rate, p95, None, round(rate * WINDOW_SECONDS), None)

    def _pod(self, uid: str) -> PodUse:
        told = self.used[uid]
        return PodUse(uid, Workload.objects.get(pk=uid).attempt, 0, told.get("duty"), told.get("cpu_milli"), None, None)
