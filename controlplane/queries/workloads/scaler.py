"""How Kubernetes' own autoscaler of a service stands: what it is told, what it wants, and its conditions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from controlplane.jobspec.quantities import iso
from controlplane.jobspec.scaling import is_native
from controlplane.models import ServiceScaler, Workload

# What each condition says while nothing is wrong; of another type nothing is known.
USUAL = {**dict.fromkeys(("AbleToScale", "ScalingActive", "Made", "Progressing"), "True"), "ScalingLimited": "False"}


class Condition(NamedTuple):
    """One condition of the autoscaler, in its own words. `Made` is Weft's: False where it could not make it.
    `Progressing` is the Deployment's: False where a new revision does not come."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def is_usual(self) -> bool:
        """Whether it says nothing that people have to look at."""
        return USUAL.get(self.type, self.status) == self.status


@dataclass(frozen=True, slots=True)
class Scaler:
    """in_flight, target: requests of all replicas, and for each; None: not known yet. other_owner: what else writes
    the number of replicas; empty: nothing does. seen_at: cluster clock of the newest look; None: none yet."""

    in_flight: float | None
    target: float | None
    current: int | None
    desired: int | None
    conditions: tuple[Condition, ...]
    other_owner: str
    seen_at: float | None

    def shown(self) -> dict[str, Any]:
        """As the API answers it."""
        return {
            "requests_in_flight": self.in_flight,
            "target_per_replica": self.target,
            "current_replicas": self.current,
            "desired_replicas": self.desired,
            "conditions": [one._asdict() for one in self.conditions],
            "other_owner": self.other_owner,
            "seen_at": None if self.seen_at is None else iso(self.seen_at),
        }

    @property
    def sentence(self) -> str:
        """How it stands, in one line."""
        if self.desired is None:
            return "scaled by Kubernetes' HPA, which has said nothing yet"
        now = "not known how many" if self.current is None else str(self.current)
        load = ""
        if self.in_flight is not None and self.target is not None:
            load = f"; {self.in_flight:.1f} requests in flight, {self.target:.1f} are to be at each"
        return f"scaled by Kubernetes' HPA: {now} now, {self.desired} wanted{load}"

    @property
    def unusual(self) -> Sequence[Condition]:
        """The conditions that people have to look at."""
        return tuple(one for one in self.conditions if not one.is_usual)


NOTHING = Scaler(None, None, None, None, (), "", None)


def of_service(workload: Workload) -> Scaler | None:
    """How it stands; None for a service that Weft scales. One query at most."""
    if not is_native(workload.spec):
        return None
    row = ServiceScaler.objects.filter(workload=workload.pk).first()
    if row is None:
        return NOTHING
    conditions = tuple(Condition(*map(str, one)) for one in row.conditions)
    told = row.current, row.desired, conditions, row.other_owner, row.seen_at
    return Scaler(_requests(row.in_flight), _requests(row.target), *told)


def _requests(milli: int | None) -> float | None:
    return None if milli is None else milli / 1000
