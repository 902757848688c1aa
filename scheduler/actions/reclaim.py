"""Reclaim: a team takes its nominal GPUs back from teams that borrow."""

from scheduler.decision import EvictReason
from scheduler.fit import flavors, least
from scheduler.plan import Plan
from scheduler.quota import gpus_text
from scheduler.settings import Settings
from scheduler.snapshot import LATER
from scheduler.victims import Terms, candidates, make_room
from scheduler.workload import Workload


def reclaim(plan: Plan, claimant: Workload, settings: Settings) -> bool:
    """Place a claimant that its team's nominal quota covers by making borrowers leave; whether it could."""
    usage, need = plan.usage, claimant.ask.milli * least(claimant)
    pools = [f.pool for f in flavors(plan, claimant) if f is not None]
    pools = [pool for pool in pools if need <= usage.within_nominal(claimant.team, pool, LATER)]
    borrowers = [t for t in usage.tree.paths if any(usage.may_reclaim(claimant.team, t, p, need, 1) for p in pools)]
    if not need or not borrowers:
        return False

    def may_take(victim: Workload) -> bool:
        gives = usage.by_pool(victim)
        return any(pool in pools for pool in gives) and all(
            usage.may_reclaim(claimant.team, victim.team, pool, need, milli) for pool, milli in gives.items()
        )

    def message(victim: Workload) -> str:
        return (
            f"Gives {gpus_text(victim.held_milli)} borrowed GPUs back to team {claimant.team}, "
            f"whose {claimant.name} needs {gpus_text(need)} of its own."
        )

    found = [w for w in candidates(plan, claimant, borrowers, settings) if may_take(w)]
    return make_room(plan, claimant, found, Terms(EvictReason.RECLAIMED, True, may_take, message), settings)
