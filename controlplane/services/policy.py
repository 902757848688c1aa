"""The policy in force: the newest of append-only versions."""

from django.db import transaction

from controlplane.models import PolicyVersion, bulk
from controlplane.policy import Policy
from controlplane.services import events
from controlplane.services.clock import database_now
from controlplane.wake import wake


def current() -> tuple[Policy, int | None]:
    """The policy in force and its version; the defaults have none."""
    rows = bulk.select(PolicyVersion, ("id", "data"), 'ORDER BY "id" DESC LIMIT 1')
    return (Policy.from_dict(rows[0][1]), rows[0][0]) if rows else (Policy(), None)


def version(number: int | None) -> Policy:
    """One version of the policy; None for the defaults."""
    return Policy() if number is None else Policy.from_dict(PolicyVersion.objects.get(pk=number).data)


@transaction.atomic
def save(*, policy: Policy, author: str, comment: str = "") -> int:
    """Put a policy in force from the next round on; tell its version."""
    data = policy.to_dict()
    row = PolicyVersion.objects.create(data=data, author=author, at=database_now(), comment=comment)
    events.record(kind="PolicyChanged", actor=author, message=comment, data={"version": row.pk, **data})
    wake("schedule")
    return int(row.pk)
