"""Workers on the GPUs of others give them back: to a replica that wakes, or when what lent them leaves.

A gang gives what it has beyond its minimum, and goes on. Less than that it never has: then, or if the worker at which
it meets would go, it saves its work and leaves as a whole, and is queued again.
"""

from collections.abc import Collection

from scheduler.model.decision import Evict, EvictReason, Shrink, Whose
from scheduler.model.mention import counted, mention
from scheduler.model.sharing import is_on_part
from scheduler.model.terms import of_shrink, of_taken_back
from scheduler.model.workload import Assignment, Workload, staying
from scheduler.state.session import Session


def take_back(session: Session) -> None:
    """Have those workers leave that are on the device of a replica or share which has left, leaves or serves again."""
    plan = session.plan
    for uid in sorted(plan.ledger.borrowing):
        gang = plan.workload(uid)
        if gang is not plan.snapshot.workloads[uid]:
            continue  # a round decides once about each: what is left to do is the next one's
        ranks = [a.rank for a in gang.placement if a.lender and not a.leaving and not _is_lent(session, a)]
        if not ranks:
            continue
        lender = next(a.lender for a in gang.placement if a.rank in ranks)
        if goes_on_without(gang, ranks):
            gives = counted(len(ranks), "worker")
            message = f"Gives {gives} back: {mention(lender)} has left the GPU that it lent, or uses it itself."
            plan.shrink(gang, ranks, "", message, Whose.LENT)
        else:
            why = f"{mention(lender)} has left the GPU that it lent, or uses it itself"
            plan.evict(gang, EvictReason.TAKEN_BACK, "", leaves(gang, why))


def goes_on_without(gang: Workload, ranks: Collection[int]) -> bool:
    """Whether it can run on when these workers leave: with its minimum, and the lowest rank, where the gang meets."""
    stay = staying(gang)
    return len(stay) - len(ranks) >= max(1, gang.gang.min) and stay[0] not in ranks


def to_give(gang: Workload) -> frozenset[int]:
    """The ranks on lent devices that it can give and go on, if it gives no others: the highest first."""
    stay = staying(gang)
    lent = sorted((a.rank for a in gang.placement if a.lender and not a.leaving and a.rank != stay[0]), reverse=True)
    return frozenset(lent[: max(0, len(stay) - max(1, gang.gang.min))])


def given_back(gang: Workload, ranks: Collection[int], lender: str, at: float) -> Shrink | Evict:
    """What these workers' leaving for their lender, whose replicas wake, means for the gang."""
    if not goes_on_without(gang, ranks):
        message = leaves(gang, f"{mention(lender)} needs the GPUs that it lent")
        return Evict(gang.id, gang.version, EvictReason.TAKEN_BACK, lender, message, of_taken_back(gang, at))
    left = len(staying(gang)) - len(ranks)
    message = f"Gives {counted(len(ranks), 'worker')} back to {mention(lender)}, whose GPU it was; goes on with {left}."
    leaving = tuple(sorted(ranks))
    return Shrink(gang.id, gang.version, leaving, message, lender, of_shrink(gang, leaving, Whose.LENT))


def leaves(gang: Workload, why: str) -> str:
    """What a gang is told that leaves as a whole."""
    return f"Saves its work and leaves: {why}, and it runs with no fewer than {counted(gang.gang.min, 'worker')}."


def _is_lent(session: Session, worker: Assignment) -> bool:
    """Whether what lent the device is there: a replica that is asleep, or a share that leaves time on it."""
    lender = session.plan.snapshot.workloads.get(worker.lender)
    if lender is None:
        return False
    there = session.plan.workload(lender.id).placement
    stays = [a for a in there if (a.node, a.gpus) == (worker.node, worker.gpus) and not a.leaving]
    if is_on_part(lender):
        at = session.plan.inventory.index.get(worker.node)
        return (
            bool(stays)
            and session.settings.harvest
            and at is not None
            and session.plan.inventory.nodes[at].enforces_limits
        )
    return any(a.asleep_at is not None for a in stays)
