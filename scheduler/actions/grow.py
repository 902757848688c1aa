"""Grow: give elastic gangs workers where no workload that waits could use the room (preemption/growth.py)."""

from scheduler.preemption.growth import Growth
from scheduler.state.session import Session


def grow(session: Session, growth: Growth) -> None:
    """Let elastic gangs grow, once each claimant has had its turn."""
    for gang in growth.in_order():
        if session.is_full:
            return
        if not growth.may_have_room(gang):
            continue
        places = growth.places(gang)
        if not isinstance(places, str):
            session.plan.place(gang, places)
