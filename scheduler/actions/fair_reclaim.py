"""Fair reclaim: among teams that borrow, one below its entitlement takes from those above theirs."""

import numpy as np

from scheduler.decision import EvictReason
from scheduler.evictable import Evictable
from scheduler.fairshare import entitled, spare
from scheduler.fit import flavors, least
from scheduler.plan import Plan
from scheduler.quota import gpus_counted, gpus_text
from scheduler.settings import Settings
from scheduler.snapshot import LATER
from scheduler.victims import Terms, make_room, search
from scheduler.workload import Workload


def fair_reclaim(plan: Plan, claimant: Workload, evictable: Evictable, settings: Settings) -> bool:
    """Place a claimant by making borrowers above their entitlement leave; whether it could.

    What they borrow is theirs for `borrower_runtime_seconds`: here nobody takes back what it owns. A claimant that
    was preempted too often borrows nothing, so it takes nothing. All workers it wants are counted, as it may get all.
    """
    usage, team = plan.usage, claimant.team
    known, need = entitled(plan, settings), claimant.ask.milli * claimant.missing
    pools = [f.pool for f in flavors(plan, claimant) if f is not None]
    pools = [pool for pool in pools if usage.total[LATER][team, pool] < known.get((team, pool), 0)]
    if claimant.id in plan.worn:
        return False
    latest = plan.snapshot.at - settings.borrower_runtime_seconds
    chosen = []
    for pool in pools:
        found = {other: spare(plan, settings, team, other, pool, need) for other in usage.borrowers(pool)}
        if sum(found.values()) + usage.available(team, pool, LATER) < claimant.ask.milli * least(claimant):
            continue
        number = usage.tree.pools.index(pool)
        for other, most in found.items():
            theirs = evictable.of_team.get(other)
            if most and theirs is not None:
                is_theirs = (evictable.pool[theirs] == number) & (evictable.started[theirs] <= latest)
                chosen.append(theirs[is_theirs & (evictable.milli[theirs] <= most)])
    if not chosen:
        return False

    def may_take(victim: Workload) -> bool:
        held = usage.by_pool(victim).items()
        return all(spare(plan, settings, team, victim.team, pool, need) >= milli for pool, milli in held)

    def message(victim: Workload) -> str:
        pool = next(iter(usage.by_pool(victim)), pools[0])
        held, share = usage.total[LATER][victim.team, pool], known.get((victim.team, pool), 0)
        return (
            f"Gives {gpus_counted(victim.held_milli)} to team {team} for {claimant.name}: team {victim.team} holds "
            f"{gpus_text(held)} in {pool} and is entitled to {gpus_text(share)}."
        )

    terms = Terms(EvictReason.FAIR_SHARE, False, may_take, message)
    return make_room(search(plan, claimant, evictable, np.concatenate(chosen), terms, settings))
