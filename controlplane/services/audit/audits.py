"""What the self-audit found, kept in the database: every web process tells it, whichever worker looked.

Plain SQL (models/bulk.py): the newest row alone, in every request for health.
"""

from collections.abc import Mapping, Sequence

from django.db import transaction

from controlplane.invariants.state import Violation
from controlplane.models import Audit, bulk
from controlplane.services.scheduling.clock import database_sql
from controlplane.services.scheduling.leases import HeldLease

EXAMPLE_LENGTH = 400


@transaction.atomic
def record(*, found: Mapping[str, Sequence[Violation]], lease: HeldLease) -> None:
    """Replace what is known by what each invariant's check found; none is a row too. Raises LeaseLost."""
    lease.check()
    Audit.objects.exclude(name__in=found).delete()  # an invariant that is checked no more
    rows = [(name, len(broken), _example(broken)) for name, broken in found.items()]
    conflict = (
        'ON CONFLICT ("name") DO UPDATE SET "violations" = excluded."violations", "example" = excluded."example",'
        ' "at" = excluded."at"'
    )
    bulk.insert(Audit, ("name", "violations", "example"), rows, conflict, at=database_sql())


def _example(broken: Sequence[Violation]) -> str:
    return f"{broken[0].subject}: {broken[0].message}"[:EXAMPLE_LENGTH] if broken else ""
