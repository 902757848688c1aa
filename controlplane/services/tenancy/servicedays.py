"""Rows of days: how services kept their objectives, noted from their windows before these are pruned."""

from django.db import transaction

from autoscaler.standings import Tally
from controlplane.domain.servicedays import MINUTES, Stretch
from controlplane.models import ServiceDay
from controlplane.services.scheduling.leases import HeldLease


@transaction.atomic
def note(*, stretch: Stretch, found: Tally, lease: HeldLease) -> bool:
    """Add what was found of these minutes to the row of their day, once. Raises LeaseLost."""
    lease.check()
    row = ServiceDay.objects.filter(workload=stretch.workload, day=stretch.day).first()
    if row is not None and row.until > stretch.since:
        return False
    row = row or ServiceDay(workload=stretch.workload, day=stretch.day)
    row.until = stretch.until
    row.availability, row.p95_seconds = stretch.promise.availability, stretch.p95_seconds
    row.p95_of = stretch.p95_of
    row.requests += found.requests
    row.over += found.over
    for standing, column in MINUTES.items():
        setattr(row, column, getattr(row, column) + found.minutes[standing])
    row.budget_left = found.budget_left
    if found.worst is not None and found.worst.over > row.worst_over:
        row.worst_start = found.worst.start
        row.worst_requests, row.worst_over = found.worst.requests, found.worst.over
    row.save()
    return True
