"""A job file as what a name should be: submitted where no live workload has the name, else the live one is changed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction

from controlplane.jobspec.difference import difference
from controlplane.jobspec.spec import Spec, is_amendable
from controlplane.models import User, Workload
from controlplane.services.workloads.submission import submit
from controlplane.services.workloads.workloads import patch


class Outcome(StrEnum):
    """What came of a job file."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Applied:
    """The workload that a job file stands for now, and the fields that were changed."""

    uid: UUID
    outcome: Outcome
    changed: tuple[str, ...] = ()


@transaction.atomic
def apply(*, spec: Spec, live: Workload | None, user: User | None, actor: str) -> Applied:
    """Submit a job file, or make the live workload of its name, as the caller saw it, what the file says.

    Raises what `submit` and `patch` raise: SpecError names fields that cannot change after the submission, Refused 412
    tells that the workload has changed meanwhile.
    """
    if live is None:
        return Applied(submit(spec=spec, user=user, actor=actor).pk, Outcome.CREATED)
    changes = difference(live.spec, spec)
    if not changes:
        return Applied(live.pk, Outcome.UNCHANGED)
    patch(workload=live, changes=changes, version=live.version, actor=actor)
    return Applied(live.pk, Outcome.CONFIGURED, tuple(changes))


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which a live workload differs from a job file, as each has it; None where it has none."""

    field: str
    before: Any
    after: Any
    can_change: bool  # else a new workload has to be submitted


def compared(spec: Spec, live: Workload) -> tuple[Difference, ...]:
    """What `apply` would change, and what it would refuse to. Writes nothing."""
    changes = difference(live.spec, spec)
    return tuple(
        Difference(name, live.spec.get(name), value, is_amendable(name, live.kind)) for name, value in changes.items()
    )
