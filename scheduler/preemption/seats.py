"""Seats: the places of services' sleeping replicas, and which of them a gang may borrow.

A replica on standby keeps its model loaded and its GPU in every account; a gang's worker there takes of GPUs only
memory, beside the model. Gangs that run grow there (actions/lend.py), gangs that wait start there
(actions/start_on_lent.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduler.fit.gang import ranked
from scheduler.model.snapshot import COMPUTE, IDLE, MEMORY
from scheduler.model.workload import Assignment, Phase, ResourceRequest, Workload
from scheduler.preemption.growth import Spot
from scheduler.state.session import Session


class Seat(NamedTuple):
    """A sleeping replica's place that no gang borrows."""

    service: Workload
    replica: Assignment
    node: int  # index
    device: int  # index over all nodes


def may_borrow(ask: ResourceRequest) -> bool:
    """Whether a worker may run beside a loaded model: one whole GPU, of which it says how much memory it needs."""
    return ask.gpus == 1 and ask.share is None and ask.gpu_memory > 0


def open_seats(session: Session) -> Iterator[Seat]:
    """The places of sleeping replicas that may be lent now: loaded, settled and not lent."""
    plan, index = session.plan, session.plan.inventory.index
    borrowers = (plan.workload(uid) for uid in {*plan.ledger.borrowing, *plan.view})  # this round's among them
    taken = {(a.node, a.gpus) for gang in borrowers for a in gang.placement if a.lender}
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


def seats_for(session: Session, gang: Workload, spot: Spot, seats: Sequence[Seat]) -> list[Seat]:
    """The seats that this gang may borrow, those of its own team first."""
    flavor = spot.flavor
    if flavor is None:
        return []
    may = [s for s in seats if spot.near[s.node] and flavor.nodes[s.node] and _may_share(session, gang, s.service)]
    return sorted(may, key=lambda s: (s.service.team != gang.team, s.service.seq, s.replica.rank))


def with_room(session: Session, gang: Workload, seats: list[Seat], few: int) -> list[Seat]:
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


def workers_on(session: Session, gang: Workload, seats: Sequence[Seat]) -> tuple[Assignment, ...]:
    """Its next workers, one on each of these seats."""
    workers = ranked(session.plan.inventory, gang, [(seat.node, seat.replica.gpus) for seat in seats])
    return tuple(replace(worker, lender=seat.service.id) for worker, seat in zip(workers, seats, strict=True))


def _may_share(session: Session, gang: Workload, service: Workload) -> bool:
    """Whether both may be on one device: of one team, or of teams that both share with others."""
    tenants = session.plan.tenants
    return tenants is None or tenants.may_share(gang.team, service.team)
