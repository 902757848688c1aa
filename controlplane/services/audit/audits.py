"""What the self-audit found, kept in the database: every web process tells it, whichever worker looked."""

from collections.abc import Mapping, Sequence

from django.db import transaction
from django.db.models.functions import Now

from controlplane.invariants.state import Violation
from controlplane.models import Audit
from controlplane.services.scheduling.leases import HeldLease

EXAMPLE_LENGTH = 400


@transaction.atomic
def record(*, found: Mapping[str, Sequence[Violation]], lease: HeldLease) -> None:
    """Replace what is known by what each invariant's check found; none is a row too. Raises LeaseLost."""
    lease.check()
    Audit.objects.exclude(name__in=found).delete()  # an invariant that is checked no more
    Audit.objects.bulk_create(
        (
            Audit(name=name, violations=len(broken), example=_example(broken), at=Now())
            for name, broken in found.items()
        ),
        update_conflicts=True,
        unique_fields=("name",),
        update_fields=("violations", "example", "at"),
    )


def _example(broken: Sequence[Violation]) -> str:
    return f"{broken[0].subject}: {broken[0].message}"[:EXAMPLE_LENGTH] if broken else ""
