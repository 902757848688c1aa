"""Lend: elastic gangs get workers on the GPUs of services' sleeping replicas, and lose them when a replica wakes.

A worker comes there where the gang could grow anyway, so all that holds for growth holds (grow.py). The autoscaler
takes it back (autoscaler/standby.py), and a round does when its lender leaves (preemption/borrowed.py).
Source: our own; the law that wakes is docs/algorithms.md#services, its gain is measured by `manage.py benchmark slo`.
"""

from scheduler.model.workload import most, staying
from scheduler.preemption.growth import Growth
from scheduler.preemption.seats import may_borrow, open_seats, seats_for, with_room, workers_on
from scheduler.state.session import Session


def lend(session: Session, growth: Growth) -> None:
    """Give gangs that can use more workers the devices of sleeping replicas, each gang all that it can use of them."""
    if not session.plan.ledger.sleeping:
        return
    seats = list(open_seats(session))
    for gang in growth.in_order() if seats else ():
        if session.is_full or not seats:
            return
        if not may_borrow(gang.ask) or growth.resting(gang):
            continue
        spot = growth.spot(gang)
        may = [] if spot is None else seats_for(session, gang, spot, seats)
        chosen = with_room(session, gang, may, most(gang) - len(staying(gang)))
        if chosen:
            session.plan.place(gang, workers_on(session, gang, chosen))
            seats = [seat for seat in seats if seat not in chosen]
