"""Take surplus: what gangs hold beyond their count goes to any claimant that can use the room, before all else leaves.

It was lent to them while no workload could use it (grow.py), so no rule of teams and priorities protects it: the
claimant gets it within what its own team may use, and by borrowing too.
"""

from scheduler.model.decision import EvictReason
from scheduler.model.workload import Workload
from scheduler.preemption.victims import Conditions, make_room, search
from scheduler.state.session import Session


def take_surplus(session: Session, claimant: Workload) -> bool:
    """Place a claimant where gangs give back workers beyond their count; whether it could."""
    evictable = session.evictable
    if not evictable.lenders:
        return False
    conditions = Conditions(EvictReason.PREEMPTED, False, lambda victim: False, lambda victim: "", may_evict=False)
    return make_room(search(session, claimant, evictable.movable[:0], conditions))
