"""Reclaim: a team takes its nominal GPUs back from teams that borrow."""

import numpy as np

from scheduler.model.decision import EvictReason
from scheduler.model.mention import mention
from scheduler.model.snapshot import Ints
from scheduler.model.workload import Workload, least
from scheduler.preemption.victims import Conditions, make_room, search
from scheduler.quota.tree import gpus_counted
from scheduler.state.session import Session


def reclaim(session: Session, claimant: Workload, may_evict: bool = True) -> bool:
    """Place a claimant that its team's nominal quota covers by making borrowers leave; whether it could."""
    plan, evictable = session.plan, session.evictable
    usage, team, need = plan.usage, claimant.team, claimant.need_milli(least(claimant))
    pools = [f.pool for f in session.flavors.of(claimant) if f is not None]
    pools = [pool for pool in pools if need <= usage.owed(team, pool)]
    chosen = [np.zeros(0, dtype=np.int64)]
    if may_evict:
        chosen += [_of_pool(session, claimant, pool) for pool in pools]
    numbers = np.concatenate(chosen)
    if not numbers.size and not (pools and evictable.elastic):
        return False

    def may_take(victim: Workload) -> bool:
        return all(usage.spare(team, victim.team, p, need) >= milli for p, milli in usage.by_pool(victim).items())

    def message(victim: Workload) -> str:
        return (
            f"Gives {gpus_counted(victim.held_milli)} of borrowed quota back to team {team} for {mention(claimant.id)}."
        )

    def may_shrink(gang: Workload) -> bool:
        worker, held = gang.ask.milli, evictable.held(gang)
        return worker > 0 and all(p in pools and usage.spare(team, gang.team, p, need) >= worker for p in held)

    borrowers = {other for pool in pools for other in usage.borrowers(pool)}  # no other has anything to spare
    may_ask = borrowers.__contains__
    conditions = Conditions(EvictReason.RECLAIMED, True, may_take, message, may_shrink, may_ask, may_evict)
    return make_room(search(session, claimant, numbers, conditions))


def _of_pool(session: Session, claimant: Workload, pool: str) -> Ints:
    """Candidates of a pool that hold no more than their team, which borrows, has to spare for the claimant."""
    evictable, need = session.evictable, claimant.need_milli(least(claimant))
    names, spares = session.plan.usage.spares(claimant.team, pool, need)
    numbers = np.array([evictable.team_number.get(other, -1) for other in names], dtype=np.int64)
    return evictable.within(evictable.of_pool(pool), numbers, np.array(spares, dtype=np.int64))
