"""Lend: elastic gangs get workers on the GPUs of services' sleeping replicas, and where shares leave time.

A worker comes there where the gang could grow anyway, so all that holds for growth holds (grow.py). The autoscaler
takes it back for a replica that wakes (autoscaler/standby.py), a round when its lender leaves (preemption/borrowed.py).
Source: our own; the law that wakes is docs/algorithms.md#services, its gain is measured by `manage.py benchmark slo`.
"""

from scheduler.model.sharing import goes_at_own_pace
from scheduler.model.workload import most, staying
from scheduler.preemption.growth import Growth
from scheduler.preemption.harvest import all_seats, may_have_seats
from scheduler.preemption.offload import offload
from scheduler.preemption.seats import Place, may_borrow, seats_for, with_room, workers_on
from scheduler.state.session import Session


def lend(session: Session, growth: Growth, wanted: set[Place]) -> None:
    """Give gangs that can use more workers the devices that others lend, each gang all that it can use of them.

    wanted: places for which gangs wait until weights have moved; no other gang gets them, and more are added here.
    """
    gangs = [gang for gang in growth.in_order() if may_borrow(gang.ask)] if may_have_seats(session) else []
    seats = [seat for seat in all_seats(session, growth) if seat.place not in wanted] if gangs else []
    for gang in gangs if seats else ():
        if session.is_full or not seats:
            return
        if growth.resting(gang):
            continue
        spot = growth.spot(gang)
        # Where workers wait for each other in each step, one that has only a part of a GPU's time would slow down all.
        fit = seats if goes_at_own_pace(gang) else [seat for seat in seats if not seat.is_harvest]
        may = [] if spot is None else seats_for(session, gang, spot, fit)
        choice = with_room(session, gang, may, most(gang) - len(staying(gang)))
        # A gang that has changed rests: it gets at once what is there, or else, together, what has to be moved first.
        if choice.now and not choice.coming:
            session.plan.place(gang, workers_on(session, gang, choice.now))
            taken = {seat.place for seat in choice.now}
        else:
            offload(session, gang, choice.to_move)
            taken = {seat.place for seat in choice.seats}
            wanted |= taken
        seats = [seat for seat in seats if seat.place not in taken]  # two replicas of one device are two seats there
