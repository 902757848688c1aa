"""A submission tried and taken back: what `submit` would refuse, the preview refuses alike."""

from typing import TYPE_CHECKING

from django.db import transaction

from controlplane.models import User
from controlplane.services.audit import context
from controlplane.services.workloads.submission import submit

if TYPE_CHECKING:
    from controlplane.jobspec.spec import Spec


def rehearse(*, spec: "Spec", user: User | None) -> tuple[str, ...]:
    """Tell which names in `after` are not met yet; raises what `submit` would raise. Nothing is left written."""
    with context.followed(), transaction.atomic():  # the audit log is not told of events that are taken back
        workload = submit(spec=spec, user=user)
        unmet = tuple(workload.unmet)
        transaction.set_rollback(True)
    return unmet
