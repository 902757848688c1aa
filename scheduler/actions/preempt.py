"""Preempt: work of higher priority takes the place of its own team's lower work."""

from scheduler.decision import EvictReason
from scheduler.evictable import Evictable
from scheduler.plan import Plan
from scheduler.settings import Settings
from scheduler.victims import Terms, make_room, search
from scheduler.workload import Workload


def preempt(plan: Plan, claimant: Workload, evictable: Evictable, settings: Settings) -> bool:
    """Place a claimant by making its team's lower priorities leave; whether it could.

    Base priorities count: work that only waited long pushes nobody out.
    """
    numbers = evictable.of_team.get(claimant.team)
    if numbers is None:
        return False

    def may_take(victim: Workload) -> bool:
        return victim.priority < claimant.priority

    def message(victim: Workload) -> str:
        return (
            f"Makes room for {claimant.team}/{claimant.name} "
            f"(priority {claimant.priority}, this one has {victim.priority})."
        )

    lower = numbers[evictable.priority[numbers] < claimant.priority]
    return make_room(
        search(plan, claimant, evictable, lower, Terms(EvictReason.PREEMPTED, False, may_take, message), settings)
    )
