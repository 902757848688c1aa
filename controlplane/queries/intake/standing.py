"""How the workloads of Kubernetes objects stand, for the loop that follows the objects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from autoscaler import sla
from controlplane.kubeobjects.names import TEAM_RESOURCE, WORKLOAD_RESOURCE
from controlplane.kubeobjects.status import Seen
from controlplane.models import Event, Team, Workload
from controlplane.queries.audit import naming
from controlplane.queries.workloads import workloadrows
from scheduler.model.workload import ENDED, Phase

_ENDED = sorted(phase.value for phase in ENDED)


@dataclass(frozen=True, slots=True)
class Standing:
    """A workload of an object. submitter: our name of who submitted it."""

    uid: str
    seen: Seen
    submitter: str

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.seen.phase in ENDED


def last_event() -> int:
    """The newest event's number; 0 before the first."""
    return Event.objects.order_by("-id").values_list("id", flat=True).first() or 0


def standings(uids: Collection[str]) -> dict[str, Standing]:
    """Of these objects' workloads, and of all live ones that an object has made, by uid.

    Four queries, and at most five more where a service is among them.
    """
    known = Q(pk__among=[UUID(uid) for uid in uids]) | ~Q(phase__in=_ENDED)
    found = Workload.objects.filter(known, managed_by=WORKLOAD_RESOURCE).order_by("seq").values_list("pk", flat=True)
    rows = workloadrows.listed(list(found))
    # Who reads a team's namespace may see that team's work.
    messages = naming.each([(row["message"], (row["team"],)) for row in rows])
    return {row["uid"]: _standing(row, message) for row, message in zip(rows, messages, strict=True)}


def workload(uid: str) -> Workload:
    """The row of one, with its team."""
    found: Workload = Workload.objects.select_related("team", "priority_class").get(pk=UUID(uid))
    return found


def teams() -> dict[str, Team]:
    """The teams that an object changes, by name."""
    return {team.name: team for team in Team.objects.filter(managed_by=TEAM_RESOURCE)}


def _standing(row: Mapping[str, Any], message: str) -> Standing:
    seconds = row["cluster_seconds"]
    seen = Seen(
        phase=Phase(row["phase"]),
        reason=row["reason"],
        message=message,
        attempt=row["attempt"],
        exit_code=row["exit_code"],
        gpus=row["resources"]["milli_gpu"],
        running=row["workers"]["running"],
        workers=row["workers"]["count"],
        submitted_at=seconds["submitted_at"],
        started_at=seconds["started_at"],
        ended_at=seconds["ended_at"],
        standing=row["standing"] and sla.Standing(row["standing"]),
    )
    return Standing(row["uid"], seen, row["created_by"])
