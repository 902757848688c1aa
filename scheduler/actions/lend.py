"""Lend: elastic gangs get workers on the GPUs of services' sleeping replicas, and lose them when a replica wakes.

A replica on standby keeps its model loaded and its GPU in every account; a gang's worker there takes of GPUs only
memory, beside the model. It comes where the gang could grow anyway, so all that holds for growth holds (grow.py). The
autoscaler takes it back (autoscaler/standby.py), and a round does when its lender leaves (preemption/borrowed.py).
Source: our own; the law that wakes is docs/algorithms.md#services, its gain is measured by `manage.py benchmark slo`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from scheduler.fit.gang import ranked
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY, Flavor
from scheduler.model.workload import Assignment, Phase, ResourceRequest, Workload, most, staying
from scheduler.preemption.growth import Growth
from scheduler.state.session import Session


class Seat(NamedTuple):
    """A sleeping replica's place that no gang borrows."""

    service: Workload
    replica: Assignment
    node: int  # index
    device: int  # index over all nodes


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
        chosen = _with_room(session, gang, _for(session, growth, gang, seats), most(gang) - len(staying(gang)))
        if chosen:
            workers = ranked(session.plan.inventory, gang, [(seat.node, seat.replica.gpus) for seat in chosen])
            pairs = zip(workers, chosen, strict=True)
            session.plan.place(gang, tuple(replace(worker, lender=seat.service.id) for worker, seat in pairs))
            seats = [seat for seat in seats if seat not in chosen]


def may_borrow(ask: ResourceRequest) -> bool:
    """Whether a worker may run beside a loaded model: one whole GPU, of which it says how much memory it needs."""
    return ask.gpus == 1 and ask.share is None and ask.gpu_memory > 0


def open_seats(session: Session) -> Iterator[Seat]:
    """The places of sleeping replicas that may be lent now: loaded, settled and not lent."""
    plan, index = session.plan, session.plan.inventory.index
    taken = {(a.node, a.gpus) for uid in plan.ledger.borrowing for a in plan.workload(uid).placement if a.lender}
    until = plan.snapshot.at - session.settings.lend_after_seconds
    for service in sorted(plan.ledger.sleeping.values(), key=lambda w: w.seq):
        if service.phase is not Phase.RUNNING or plan.workload(service.id) is not service:
            continue  # some of its replicas still load
        for a in service.placement:
            at = index.get(a.node)
            if a.asleep_at is None or a.leaving or a.asleep_at > until or at is None or len(a.gpus) != 1:
                continue
            node = plan.inventory.nodes[at]
            if (a.node, a.gpus) not in taken and node.is_usable and node.takes_shares and a.gpus[0] not in node.lost:
                yield Seat(service, a, at, int(plan.inventory.offset[at]) + a.gpus[0])


def _for(session: Session, growth: Growth, gang: Workload, seats: list[Seat]) -> list[Seat]:
    """The seats that this gang may borrow, those of its own team first."""
    spot = growth.spot(gang)
    if spot is None or spot.flavor is None:
        return []
    flavor: Flavor = spot.flavor
    may = [s for s in seats if spot.near[s.node] and flavor.nodes[s.node] and _may_share(session, gang, s.service)]
    return sorted(may, key=lambda s: (s.service.team != gang.team, s.service.seq, s.replica.rank))


def _may_share(session: Session, gang: Workload, service: Workload) -> bool:
    """Whether both may be on one device: of one team, or of teams that both share with others."""
    tenants = session.plan.tenants
    return tenants is None or tenants.may_share(gang.team, service.team)


def _with_room(session: Session, gang: Workload, seats: list[Seat], few: int) -> list[Seat]:
    """The first few seats where its memory fits beside the model, and its CPU and memory on the node."""
    plan, ask = session.plan, gang.ask
    used, most_of = plan.columns.gpu[:, MEMORY], plan.inventory.gpu_capacity[MEMORY]
    host = session.constraints.room_beside_all(IDLE).node.copy()
    chosen: list[Seat] = []
    for seat in seats:
        if len(chosen) == few:
            break
        is_free = host[COMPUTE, seat.node] >= ask.cpu_milli and host[MEMORY, seat.node] >= ask.memory
        if is_free and used[:, seat.device].max() + ask.gpu_memory <= most_of[seat.device]:
            host[:, seat.node] -= (ask.cpu_milli, ask.memory)
            chosen.append(seat)
    return chosen
