"""The limit of a service's replicas on shares, which the autoscaler may raise: what it is, and up to what it may go."""

from dataclasses import asdict, dataclass
from typing import Any

from controlplane.models import Workload
from controlplane.queries.scheduling import rooms
from gpushare.gpu import WHOLE, Enforcer
from scheduler.model.workload import Kind


@dataclass(frozen=True, slots=True)
class Limit:
    """In milli-GPU: the limit now, the least and the most of the job file, and the most that it may be now.

    advisory: a node with a replica where nothing holds a share to its limit, so that it stays the least; else empty.
    """

    now_milli: int
    least_milli: int
    most_milli: int
    cap_milli: int
    advisory: str

    def shown(self) -> dict[str, Any]:
        """As the API answers it."""
        by = Enforcer.ADVISORY if self.advisory else Enforcer.BACK_END
        told = {name: value for name, value in asdict(self).items() if name != "advisory"}
        return {**told, "enforced_by": by.value, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """How it stands."""
        now, least, most, cap = (
            f"{milli / WHOLE:g}" for milli in (self.now_milli, self.least_milli, self.most_milli, self.cap_milli)
        )
        if self.advisory:
            return f"{now} of a GPU; not raised to {most}, as nothing on {self.advisory} holds a share to it (advisory)"
        if self.cap_milli < self.most_milli:
            return f"{now} of a GPU, between {least} and {most}; its GPUs have room for {cap} beside other guarantees"
        return f"{now} of a GPU, between {least} and {most}"


def of_service(workload: Workload) -> Limit | None:
    """The limit of a service's replicas; None for one whose limit is not raised. Three queries."""
    bounds = rooms.raised(workload.spec.get("normalised") or {}) if workload.kind == Kind.INFERENCE else None
    if bounds is None:
        return None
    found = rooms.limits({workload.pk: bounds})[str(workload.pk)]
    return Limit(workload.share_limit, found.least, found.most, found.cap, found.advisory)
