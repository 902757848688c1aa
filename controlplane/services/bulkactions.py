"""One action on several workloads: each in its own transaction, so that one refusal undoes nothing of the others."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controlplane.models import Workload
from controlplane.services import workloads
from controlplane.services.errors import Refused
from controlplane.spec import SpecError

MOST = 100
PRIORITY = "priority"
VERBS = ("stop", "suspend", "resume", "requeue", PRIORITY)
NOT_ALLOWED = "Your role in team {team} does not allow this. Ask an admin of the team."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one of them: done, or why not. `before` is its priority class until then."""

    workload: Workload
    refusal: str
    before: str

    @property
    def is_done(self) -> bool:
        """Whether it was done."""
        return not self.refusal


def act(
    *,
    verb: str,
    chosen: Iterable[Workload],
    allowed: Collection[UUID],
    actor: str,
    priorities: Mapping[UUID, str] | None = None,
) -> tuple[Outcome, ...]:
    """Do it to each of them that the caller may act on; `priorities` has the new class of each, for that verb."""
    return tuple(_one(verb, w, w.pk in allowed, actor, (priorities or {}).get(w.pk, "")) for w in chosen)


def _one(verb: str, workload: Workload, is_allowed: bool, actor: str, priority: str) -> Outcome:
    before = workload.priority_class.name
    if not is_allowed:
        return Outcome(workload, NOT_ALLOWED.format(team=workload.team.name), before)
    try:
        if verb == PRIORITY:
            changes: dict[str, Any] = {"priority_class": priority}
            workloads.patch(workload=workload, changes=changes, version=None, actor=actor)
        else:
            getattr(workloads, verb)(workload=workload, actor=actor)
    except Refused as refused:
        return Outcome(workload, refused.message, before)
    except SpecError as error:
        return Outcome(workload, str(error), before)
    return Outcome(workload, "", before)
