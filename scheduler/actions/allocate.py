"""Allocate: give a claimant places on free capacity, at once or after what leaves anyway has left."""

from scheduler.claim import claim
from scheduler.plan import Plan
from scheduler.snapshot import LATER, NOW
from scheduler.workload import Workload


def allocate(plan: Plan, workload: Workload) -> bool:
    """Place the claimant without making anybody leave, and beside what reservations keep; whether it could."""
    if claim(plan, workload, NOW, is_beside=True):
        return True
    return bool(plan.leaving) and claim(plan, workload, LATER, is_beside=True)
