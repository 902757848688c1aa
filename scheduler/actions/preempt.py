"""Preempt: work of higher priority takes the place of its own team's lower work."""

from scheduler.decision import EvictReason
from scheduler.elastic import may_shrink_for
from scheduler.evictable import Evictable
from scheduler.mention import mention
from scheduler.plan import Plan
from scheduler.settings import Settings
from scheduler.victims import Terms, make_room, search
from scheduler.workload import Workload


def preempt(plan: Plan, claimant: Workload, evictable: Evictable, settings: Settings, may_evict: bool = True) -> bool:
    """Place a claimant by making its team's lower priorities leave; whether it could.

    Base priorities count: work that only waited long pushes nobody out. Elastic gangs of its team shrink for it at
    equal priority too: nothing that runs is ended.
    """
    numbers = evictable.of_team(claimant.team)
    if not numbers.size and not evictable.elastic:
        return False

    def may_take(victim: Workload) -> bool:
        return victim.priority < claimant.priority

    def message(victim: Workload) -> str:
        return f"Makes room for {mention(claimant.id)} (priority {claimant.priority}, this one has {victim.priority})."

    lower = numbers[evictable.priority[numbers] < claimant.priority]
    terms = Terms(EvictReason.PREEMPTED, False, may_take, message, may_shrink_for(claimant), may_evict)
    return make_room(search(plan, claimant, evictable, lower, terms, settings))
