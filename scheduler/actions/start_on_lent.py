"""Start on lent GPUs: a gang that waits starts on the GPUs of services' sleeping replicas, and where shares leave time.

It gets as many GPUs of its own as are free, fewer than its minimum, where a gang could grow into them
(preemption/growth.py); the rest is lent. So only a gang starts here that can save and leave: when a replica wakes,
workers beyond its minimum leave first, and what would be less than the minimum leaves as a whole
(preemption/borrowed.py). What has been preempted as often as allowed waits for GPUs of its own.
Source: our own, as for lending to gangs that run (lend.py).
"""

from collections.abc import Iterator

import numpy as np

from scheduler.cycle.ordering import claim_of, within_team
from scheduler.explain.reasons import gate, permanent
from scheduler.fit.locality import domain_of_node
from scheduler.model.sharing import goes_at_own_pace
from scheduler.model.workload import Kind, Level, Phase, Workload
from scheduler.preemption.growth import Growth, Places, Spot
from scheduler.preemption.harvest import all_seats, may_have_seats
from scheduler.preemption.offload import offload
from scheduler.preemption.seats import Choice, Place, Seat, may_borrow, seats_for, with_room, workers_on
from scheduler.state.ledger import is_movable
from scheduler.state.session import Session

NOTHING = Choice([], [], [])


def start_on_lent(session: Session, growth: Growth) -> set[Place]:
    """Start gangs that wait where others lend, each with no more workers than its count.

    The answer: places for which gangs wait until the weights there have moved to the node's memory.
    """
    plan = session.plan
    wanted: set[Place] = set()
    gangs = list(_in_order(session)) if may_have_seats(session) else []
    seats = list(all_seats(session, growth)) if gangs else []
    for gang in gangs if seats else ():
        if session.is_full or not seats:
            return wanted
        if gate(session, gang) or permanent(session, gang):
            continue
        spots = list(_spots(session, gang, seats))
        found = [_start(session, growth, gang, spot, seats) for spot in spots]
        workers = max((places for places, _ in found), key=len, default=())
        if workers:
            plan.place(gang, workers)
            taken = {(worker.node, worker.gpus) for worker in workers if worker.lender}
        else:
            choice = max((choice for _, choice in found), key=lambda one: len(one.seats), default=NOTHING)
            offload(session, gang, choice.to_move)
            taken = {seat.place for seat in choice.seats}
            wanted |= taken
        seats = [seat for seat in seats if seat.place not in taken]
    return wanted


def may_start_on_lent(gang: Workload) -> bool:
    """Whether a gang that waits may start on GPUs that it has to give back: it may be preempted, and saves its work."""
    is_gang = gang.kind is Kind.TRAINING and not gang.roles and gang.topology.require != Level.NVLINK
    return is_gang and gang.preemptible and is_movable(gang) and may_borrow(gang.ask)


def _in_order(session: Session) -> Iterator[Workload]:
    """Those that wait and may: teams furthest below their entitlement first, within a team as for any turn."""
    plan, limited = session.plan, session.preemption_limited
    by_team: dict[str, list[Workload]] = {}
    for gang in plan.waiting:
        is_open = gang.phase is Phase.QUEUED and not gang.moving and plan.workload(gang.id) is gang
        if is_open and may_start_on_lent(gang) and gang.id not in limited:
            by_team.setdefault(gang.team, []).append(gang)
    shares = session.entitlement.deserved() if by_team else {}
    for team in sorted(by_team, key=lambda team: (claim_of(plan, shares, team), team)):
        yield from within_team(by_team[team], plan.snapshot.at, session.settings)


def _spots(session: Session, gang: Workload, seats: list[Seat]) -> Iterator[Spot]:
    """Where all its workers could be: one flavor, close enough to each other, with at least one seat."""
    level = gang.topology.require
    domains = domain_of_node(session.plan.inventory, Level.CLUSTER if level is None else level)
    for flavor in session.flavors.of(gang):
        if flavor is not None:
            for domain in np.unique(domains[[seat.node for seat in seats if flavor.nodes[seat.node]]]).tolist():
                yield Spot(flavor, domains == domain, domain)


def _start(session: Session, growth: Growth, gang: Workload, spot: Spot, seats: list[Seat]) -> tuple[Places, Choice]:
    """Its workers there, those on GPUs of its own first: the gang meets at its lowest rank. None if too few fit.

    Then, if moved weights would make enough room: the seats for which it waits.
    """
    plan, may = session.plan, seats_for(session, gang, spot, seats)
    own = growth.beside(gang, spot, gang.gang.min - 1) if may else ()
    mark = plan.mark()
    if own:
        plan.place(gang, own)
    choice = _without_slow(gang, with_room(session, gang, may, gang.gang.count - len(own)), gang.gang.min - len(own))
    lent = workers_on(session, plan.workload(gang.id), choice.now)
    plan.rollback(mark)
    if lent and len(own) + len(lent) >= gang.gang.min:
        return (*own, *lent), NOTHING
    return (), choice if len(own) + len(choice.seats) >= gang.gang.min else NOTHING


def _without_slow(gang: Workload, choice: Choice, few: int) -> Choice:
    """No more seats beside shares than it needs to start, where each of its workers waits for the slowest one."""
    if goes_at_own_pace(gang):
        return choice
    slow = [seat for seat in choice.now if seat.is_harvest]
    fast = [seat for seat in choice.now if not seat.is_harvest]
    return choice._replace(now=[*fast, *slow[: max(0, few - len(fast))]])
