"""One action on several workloads: each in its own transaction, so that one refusal undoes nothing of the others."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controlplane.jobspec.spec import SpecError
from controlplane.models import Workload
from controlplane.services.audit import context
from controlplane.services.errors import Refused
from controlplane.services.intake.ownership import Hand
from controlplane.services.workloads import workloads

MAX = 100
NOT_FOUND = 404
PRIORITY = "priority"
VERBS = ("stop", "suspend", "resume", "requeue", PRIORITY)
NOT_ALLOWED = "Your role in team {team} does not allow this. Ask an admin of the team."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one of them: done, or why not. `before` is its priority class until then."""

    workload: Workload
    refused: Refused | None
    before: str

    @property
    def is_done(self) -> bool:
        """Whether it was done."""
        return self.refused is None

    @property
    def refusal(self) -> str:
        """Why not, as a sentence; empty where it was done."""
        return self.refused.message if self.refused else ""


def act(
    *,
    verb: str,
    chosen: Iterable[Workload],
    allowed: Collection[UUID],
    actor: str,
    priorities: Mapping[UUID, str | None] | None = None,
    missing: Iterable[UUID] = (),
    hand: Hand = Hand.PERSON,
) -> tuple[Outcome, ...]:
    """Do it to each of them that the caller may act on; `priorities` has the new class of each, for that verb.

    None stands for the default class. The audit log has a row for each of them, and for each of the `missing`: what was
    asked for and is not there for the caller.
    """
    for uid in missing:
        with context.part("", str(uid)) as part:
            part.status = NOT_FOUND
    by = _By(actor, hand)
    return tuple(_one(verb, w, w.pk in allowed, by, (priorities or {}).get(w.pk, "")) for w in chosen)


@dataclass(frozen=True, slots=True)
class _By:
    """Who does it, and by whose hand."""

    actor: str
    hand: Hand


def _one(verb: str, workload: Workload, is_allowed: bool, by: _By, priority: str | None) -> Outcome:
    before = workload.priority_class.name
    with context.part(workload.team.name, workload.name) as part:
        refused = _refused(verb, workload, is_allowed, by, priority)
        part.status = refused.status if refused else 0
    return Outcome(workload, refused, before)


def _refused(verb: str, workload: Workload, is_allowed: bool, by: _By, priority: str | None) -> Refused | None:
    """Do it; None once it is done."""
    if not is_allowed:
        return Refused(403, "Forbidden", "", NOT_ALLOWED.format(team=workload.team.name))
    try:
        if verb == PRIORITY:
            changes: dict[str, Any] = {"priority_class": priority}
            workloads.patch(workload=workload, changes=changes, version=None, actor=by.actor, hand=by.hand)
        else:
            getattr(workloads, verb)(workload=workload, actor=by.actor, hand=by.hand)
    except Refused as refused:
        return refused
    except SpecError as error:
        return Refused(400, "Invalid", error.errors[0].field, str(error))
    return None
