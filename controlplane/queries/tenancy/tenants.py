"""Teams as their namespaces need them."""

from dataclasses import dataclass

from controlplane.adopted.kinds import RESOURCES
from controlplane.models import Quota, Team, Workload
from gpushare.gpu import WHOLE
from scheduler.model.workload import ENDED


@dataclass(frozen=True, slots=True)
class Tenant:
    """A team, its PodSecurity level, and the most whole GPUs that its quotas ever let it hold (None: no limit)."""

    name: str
    pod_security: str
    gpus: int | None


def tenants() -> tuple[Tenant, ...]:
    """All teams by name."""
    bounds: dict[int, int | None] = {}
    for team, nominal, borrowing in Quota.objects.values_list("team_id", "nominal", "borrowing_limit"):
        before = bounds.get(team, 0)
        bounds[team] = None if before is None or borrowing is None else before + nominal + borrowing
    return tuple(
        Tenant(name, level, bound // WHOLE if (bound := bounds.get(pk)) is not None else None)
        for pk, name, level in Team.objects.order_by("name").values_list("pk", "name", "pod_security")
    )


def made_here(team: str) -> list[str]:
    """The workloads of a team that have not ended and whose pods Weft makes itself, by name."""
    live = Workload.objects.filter(team__name=team).exclude(phase__in=[phase.value for phase in ENDED])
    return list(live.exclude(managed_by__in=RESOURCES).order_by("name").values_list("name", flat=True))
