"""Fair reclaim: among teams that borrow, one below its entitlement takes from those above theirs."""

import numpy as np

from scheduler.model.decision import EvictReason
from scheduler.model.mention import mention
from scheduler.model.snapshot import FUTURE_IDLE, Ints
from scheduler.model.workload import Workload, least
from scheduler.preemption.victims import Conditions, make_room, search
from scheduler.quota.tree import gpus_counted, gpus_text
from scheduler.state.session import Session


def fair_reclaim(session: Session, claimant: Workload, may_evict: bool = True) -> bool:
    """Place a claimant by making borrowers above their entitlement leave; whether it could.

    What they borrow is theirs for `borrower_runtime_seconds`: here no team takes back what it owns. A claimant that
    was preempted too often borrows nothing, so it takes nothing. All workers it wants are counted, as it may get all.
    """
    plan, evictable = session.plan, session.evictable
    if claimant.id in session.preemption_limited:
        return False
    usage, team, need = plan.usage, claimant.team, claimant.need_milli(claimant.missing)
    known = session.entitlement.shares
    pools = [f.pool for f in session.flavors.of(claimant) if f is not None]
    pools = [pool for pool in pools if usage.total[FUTURE_IDLE][team, pool] < known.get((team, pool), 0)]
    chosen = [np.zeros(0, dtype=np.int64)]
    if may_evict:
        chosen += [_of_pool(session, claimant, pool) for pool in pools]
    numbers = np.concatenate(chosen)
    if not numbers.size and not (pools and evictable.elastic):
        return False

    def may_take(victim: Workload) -> bool:
        held = usage.by_pool(victim).items()
        return all(session.entitlement.spare(team, victim.team, pool, need) >= milli for pool, milli in held)

    def may_shrink(gang: Workload) -> bool:
        worker, held = gang.ask.milli, evictable.held(gang)
        can_give = (session.entitlement.spare(team, gang.team, pool, need) >= worker for pool in held)
        return worker > 0 and bool(held) and held.keys() <= set(pools) and all(can_give)

    def message(victim: Workload) -> str:
        pool = next(iter(usage.by_pool(victim)), pools[0])
        held, share = usage.total[FUTURE_IDLE][victim.team, pool], known.get((victim.team, pool), 0)
        return (
            f"Gives {gpus_counted(victim.held_milli)} to team {team} for {mention(claimant.id)}: "
            f"team {victim.team} holds {gpus_text(held)} in {pool} and is entitled to {gpus_text(share)}."
        )

    above = {other for pool in pools for other in session.entitlement.above(pool).names}  # no other has any to spare
    may_ask = above.__contains__
    conditions = Conditions(EvictReason.FAIR_SHARE, False, may_take, message, may_shrink, may_ask, may_evict)
    return make_room(search(session, claimant, numbers, conditions))


def _of_pool(session: Session, claimant: Workload, pool: str) -> Ints:
    """Candidates of a pool; none where all that may be taken is too little."""
    plan, settings, evictable = session.plan, session.settings, session.evictable
    usage = plan.usage
    most = session.entitlement.spares(claimant.team, pool, claimant.need_milli(claimant.missing))
    if int(most.sum()) + usage.available(claimant.team, pool, FUTURE_IDLE) < claimant.need_milli(least(claimant)):
        return np.zeros(0, dtype=np.int64)
    old = evictable.since(pool, plan.snapshot.at - settings.borrower_runtime_seconds)
    return evictable.within(old, session.entitlement.above(pool).numbers, most)
