"""Consolidate: move small workloads to other places, so that a claimant gets in one piece what is free in several."""

from dataclasses import replace

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.decision import Evict, EvictReason
from scheduler.evictable import Evictable
from scheduler.fit import allowed_nodes, flavors, least
from scheduler.moving import keep
from scheduler.plan import Plan, is_idle
from scheduler.settings import Settings
from scheduler.snapshot import COMPUTE, LATER
from scheduler.victims import Terms, make_room, search
from scheduler.workload import Workload


def consolidate(plan: Plan, claimant: Workload, evictable: Evictable, settings: Settings) -> bool:
    """Place a claimant for which enough is free, but in pieces, by moving others to other places; whether it could.

    Only what loses little is moved: trainings and notebooks that save checkpoints, may be preempted, have run for the
    least time and did not have to leave too often. Each must have a place elsewhere that is free now, and together
    they hold no more than the claimant needs.
    """
    need = claimant.ask.milli * least(claimant)
    moved = sum(isinstance(d, Evict) and d.reason is EvictReason.CONSOLIDATED for d in plan.decisions)
    most = settings.max_moves - moved
    if most <= 0 or not need or not _is_enough(plan, claimant, need):
        return False
    small = evictable.movable[evictable.milli[evictable.movable] <= need]

    def message(victim: Workload) -> str:
        name = f"{claimant.team}/{claimant.name}"
        return f"Moves to another place, which is kept for it, so that {name} gets its room in one piece."

    def settle(victims: list[Workload]) -> bool:
        if len(victims) > most or sum(v.held_milli for v in victims) > need:
            return False
        return all([keep(plan, plan.workload(victim.id)) for victim in victims])

    terms = Terms(EvictReason.CONSOLIDATED, False, lambda victim: True, message, settle=settle)
    few = replace(settings, max_victims=min(settings.max_victims, settings.max_move_scenarios))
    return bool(small.size) and make_room(search(plan, claimant, evictable, small, terms, few))


def _is_enough(plan: Plan, claimant: Workload, need: int) -> bool:
    """Whether one flavor has as much free, in pieces, as the claimant needs."""
    free, inventory, ask = plan.free[LATER], plan.inventory, claimant.ask
    for flavor in flavors(plan, claimant):
        allowed = allowed_nodes(inventory, ask, flavor)
        milli = np.maximum(free.gpu[COMPUTE], 0) if ask.share else np.where(is_idle(free.gpu), WHOLE, 0)
        if int(milli[allowed[inventory.node_of]].sum()) >= need:
            return True
    return False
