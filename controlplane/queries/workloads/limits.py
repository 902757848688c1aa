"""The limit of a service's replicas on shares, which the autoscaler may raise: what it is, and up to what it may go."""

from dataclasses import dataclass
from typing import Any

from autoscaler.limits import Limits
from autoscaler.vertical import part
from controlplane.models import Workload
from controlplane.queries.scheduling import rooms
from gpushare.gpu import Enforcer
from scheduler.model.workload import Kind


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit now, milli-GPU, and what it may be."""

    now: int
    may_be: Limits
    by: Enforcer  # what holds it there

    def shown(self) -> dict[str, Any]:
        """As the API answers it."""
        return {
            "now_milli": self.now,
            "least_milli": self.may_be.least,
            "most_milli": self.may_be.most,
            "cap_milli": self.may_be.cap,
            "enforced_by": self.by.value,
            "sentence": self.sentence,
        }

    @property
    def sentence(self) -> str:
        """How it stands."""
        now, least, most = part(self.now), part(self.may_be.least), part(self.may_be.most)
        if self.may_be.advisory:
            on = self.may_be.advisory
            if self.by is not Enforcer.ADVISORY:
                return f"{now} of a GPU; not raised to {most}, as {self.by} on {on} follows no limit that changes"
            return f"{now} of a GPU; not raised to {most}, as nothing on {on} holds a share to it (advisory)"
        if self.may_be.cap < self.may_be.most:
            room = f"its GPUs have room for {part(self.may_be.cap)} beside other guarantees"
            return f"{now} of a GPU, between {least} and {most}; {room}"
        return f"{now} of a GPU, between {least} and {most}"


def of_service(workload: Workload) -> Limit | None:
    """The limit of a service's replicas; None for one whose limit is not raised. Five queries."""
    bounds = rooms.raised(workload.spec.get("normalised") or {}) if workload.kind == Kind.INFERENCE else None
    if bounds is None:
        return None
    may_be = rooms.limits({workload.pk: bounds})[str(workload.pk)]
    by = rooms.enforced_by(workload.pk) or Enforcer.of(enforces=not may_be.advisory)
    return Limit(workload.share_limit, may_be, by)
