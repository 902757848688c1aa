"""Workers on the devices of sleeping replicas leave when their lender does: nothing else would take them from there."""

from scheduler.model.mention import counted, mention
from scheduler.model.workload import Assignment
from scheduler.state.session import Session


def take_back(session: Session) -> None:
    """Have those workers leave that are on the device of a replica which has left, leaves or serves again."""
    plan = session.plan
    for uid in sorted(plan.ledger.borrowing):
        gang = plan.workload(uid)
        if gang is not plan.snapshot.workloads[uid]:
            continue  # a round decides once about each: what is left to do is the next one's
        ranks = [a.rank for a in gang.placement if a.lender and not a.leaving and not _is_lent(session, a)]
        if ranks:
            lender = next(a.lender for a in gang.placement if a.rank in ranks)
            gives = counted(len(ranks), "worker")
            message = f"Gives {gives} back: {mention(lender)} has left the GPU that it lent, or uses it itself."
            plan.shrink(gang, ranks, "", message)


def _is_lent(session: Session, worker: Assignment) -> bool:
    """Whether the replica whose device this worker has is there and asleep."""
    lender = session.plan.snapshot.workloads.get(worker.lender)
    there = session.plan.workload(lender.id).placement if lender is not None else ()
    same = (a for a in there if (a.node, a.gpus) == (worker.node, worker.gpus))
    return any(a.asleep_at is not None and not a.leaving for a in same)
