"""Own GPUs: gangs that wait for a worker beside shares in each step go on without it, once GPUs of their own are free.

Where they meet on such a device, at their lowest rank, they save their work and start again on GPUs that are kept for
them. Nothing that waits could use these, as for any growth (preemption/growth.py).
Source: our own.
"""

from scheduler.model.decision import EvictReason
from scheduler.model.mention import counted
from scheduler.model.sharing import goes_at_own_pace
from scheduler.model.workload import Phase, Workload, staying
from scheduler.preemption.borrowed import goes_on_without
from scheduler.preemption.growth import Growth
from scheduler.preemption.harvest import beside_shares
from scheduler.preemption.moving import other_place
from scheduler.state.ledger import is_movable
from scheduler.state.session import Session

GIVES = "Gives up {} beside shares: in each step the others would wait."
MOVES = "Moves to GPUs of its own, which are kept for it: beside shares it has only a part of a GPU's time."


def to_own_gpus(session: Session, growth: Growth) -> None:
    """Have gangs leave shares' devices where they have, or could have, GPUs of their own."""
    plan = session.plan
    for uid in sorted(plan.ledger.borrowing):
        gang = plan.workload(uid)
        if session.is_full or gang is not plan.snapshot.workloads[uid] or not _may_change(session, gang):
            continue
        ranks = beside_shares(session, gang)
        if not ranks or goes_at_own_pace(gang):
            continue
        if goes_on_without(gang, ranks):
            plan.shrink(gang, ranks, "", GIVES.format(counted(len(ranks), "worker")))
        elif is_movable(gang) and gang.preemptible and not gang.roles:
            _move(session, growth, gang)


def _move(session: Session, growth: Growth, gang: Workload) -> None:
    plan = session.plan
    mark = plan.mark()
    plan.evict(gang, EvictReason.REALLOCATED, "", MOVES)
    places = other_place(session, plan.workload(gang.id)) or ()
    nodes = [plan.inventory.index[worker.node] for worker in places]
    is_enough = len(places) >= max(gang.gang.min, min(gang.gang.count, len(staying(gang))))
    if is_enough and not growth.usable_by_others[nodes].any():
        plan.keep(plan.workload(gang.id), places)
    else:
        plan.rollback(mark)


def _may_change(session: Session, gang: Workload) -> bool:
    """Whether it has run undisturbed for a while. How long it will run on was told of whole GPUs, and says nothing."""
    is_settled = gang.phase is Phase.RUNNING and not gang.after and not gang.finishing and gang.started_at is not None
    if not is_settled or any(a.leaving or a.reserved for a in gang.placement):
        return False
    since = max(gang.started_at or 0.0, gang.scaled_at or 0.0)
    return since + session.settings.settle_seconds <= session.plan.snapshot.at and gang.team not in session.over_budget
