"""Offload: weights of sleeping replicas wait in the memory of their nodes while gangs need the whole device.

Only where the service says that its server can do it (`Workload.offloads`). Weights move first; once they are seen to
be in the node's memory, a round lends the device as any other (actions/lend.py, actions/start_on_lent.py). They come
back as soon as no worker is there, for a replica that is to serve or that no gang has a use for.
Source: level 1 of vLLM's sleep mode; that the weights count against the node's memory meanwhile is our own.
"""

from collections.abc import Collection, Sequence

from scheduler.model.mention import counted, mention
from scheduler.model.workload import ACTIVE, Weights, Workload
from scheduler.preemption.seats import Place, Seat, borrowed_places
from scheduler.state.session import Session


def offload(session: Session, gang: Workload, seats: Sequence[Seat]) -> None:
    """Have the weights of these replicas moved off the devices that a gang needs whole."""
    plan = session.plan
    for uid in dict.fromkeys(seat.lender.id for seat in seats):
        service = plan.workload(uid)
        if service is not plan.snapshot.workloads[uid]:
            continue  # a round decides once about each: another gang's were first
        ranks = [seat.worker.rank for seat in seats if seat.lender.id == uid]
        whose = "its replica" if len(ranks) == 1 else f"{len(ranks)} of its replicas"
        message = f"The weights of {whose} on standby go to host memory: {mention(gang.id)} needs all of the GPU."
        plan.offload(service, ranks, Weights.TO_HOST, gang.id, message)


def bring_back(session: Session, wanted: Collection[Place] | None) -> None:
    """Have weights return to devices that nothing borrows, of replicas that are to serve at once.

    wanted: places that gangs wait for; None: it was not looked at, so those of sleeping replicas stay where they are.
    """
    plan = session.plan
    if not plan.ledger.offloaded:
        return
    taken = borrowed_places(session)
    for service in sorted(plan.ledger.offloaded.values(), key=lambda w: w.seq):
        if plan.workload(service.id) is not service or service.phase not in ACTIVE or session.is_full:
            continue
        there = [a for a in service.placement if a.weights == Weights.HOST and not a.leaving]
        free = [a for a in there if (a.node, a.gpus) not in taken]
        back = [a for a in free if a.asleep_at is None or (wanted is not None and (a.node, a.gpus) not in wanted)]
        if back:
            what = counted(len(back), "replica")
            message = f"The weights of {what} return to the GPU: nothing borrows it any more."
            plan.offload(service, [a.rank for a in back], Weights.TO_DEVICE, "", message)
