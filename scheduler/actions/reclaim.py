"""Reclaim: a team takes its nominal GPUs back from teams that borrow."""

import numpy as np

from scheduler.decision import EvictReason
from scheduler.evictable import Evictable
from scheduler.fit import flavors
from scheduler.mention import mention
from scheduler.plan import Plan
from scheduler.quota import gpus_counted
from scheduler.settings import Settings
from scheduler.victims import Terms, make_room, search
from scheduler.workload import Workload, least


def reclaim(plan: Plan, claimant: Workload, evictable: Evictable, settings: Settings, may_evict: bool = True) -> bool:
    """Place a claimant that its team's nominal quota covers by making borrowers leave; whether it could."""
    usage, team, need = plan.usage, claimant.team, claimant.need_milli(least(claimant))
    pools = [f.pool for f in flavors(plan, claimant) if f is not None]
    pools = [pool for pool in pools if need <= usage.owed(team, pool)]
    chosen = [np.zeros(0, dtype=np.int64)]
    for pool in pools if may_evict else ():
        number = usage.tree.pools.index(pool)
        for other in usage.borrowers(pool):
            spare = usage.spare(team, other, pool, need)
            theirs = evictable.of_team(other)
            if spare and theirs.size:
                chosen.append(theirs[(evictable.pool[theirs] == number) & (evictable.milli[theirs] <= spare)])
    if len(chosen) == 1 and not (pools and evictable.elastic):
        return False

    def may_take(victim: Workload) -> bool:
        return all(usage.spare(team, victim.team, p, need) >= milli for p, milli in usage.by_pool(victim).items())

    def message(victim: Workload) -> str:
        return (
            f"Gives {gpus_counted(victim.held_milli)} of borrowed quota back to team {team} for {mention(claimant.id)}."
        )

    def may_shrink(gang: Workload) -> bool:
        worker, held = gang.ask.milli, usage.by_pool(gang)
        return worker > 0 and all(p in pools and usage.spare(team, gang.team, p, need) >= worker for p in held)

    terms = Terms(EvictReason.RECLAIMED, True, may_take, message, may_shrink, may_evict)
    return make_room(search(plan, claimant, evictable, np.concatenate(chosen), terms, settings))
