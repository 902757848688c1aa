"""Allocate: give a claimant places on free capacity, at once or after what leaves anyway has left."""

from scheduler.fit.claim import claim, may_hold
from scheduler.model.snapshot import FUTURE_IDLE, IDLE
from scheduler.model.workload import Workload
from scheduler.state.session import Session


def allocate(session: Session, workload: Workload) -> bool:
    """Place the claimant without evicting any other, within the backfill constraints; whether that was possible."""
    plan = session.plan
    if session.shortcuts.direct and not may_hold(session, workload):
        return False
    if claim(session, workload, IDLE, is_constrained=True):
        return True
    return bool(plan.leaving) and claim(session, workload, FUTURE_IDLE, is_constrained=True)
