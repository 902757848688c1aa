"""Preempt: work of higher priority takes the place of its own team's lower work."""

from scheduler.decision import EvictReason
from scheduler.plan import Plan
from scheduler.settings import Settings
from scheduler.victims import Terms, candidates, make_room
from scheduler.workload import Workload


def preempt(plan: Plan, claimant: Workload, settings: Settings) -> bool:
    """Place a claimant by making its team's lower priorities leave; whether it could.

    Base priorities count: work that only waited long pushes nobody out.
    """

    def may_take(victim: Workload) -> bool:
        return victim.priority < claimant.priority

    def message(victim: Workload) -> str:
        return (
            f"Makes room for {claimant.team}/{claimant.name} "
            f"(priority {claimant.priority}, this one has {victim.priority})."
        )

    found = [w for w in candidates(plan, claimant, (claimant.team,), settings) if may_take(w)]
    return make_room(plan, claimant, found, Terms(EvictReason.PREEMPTED, False, may_take, message), settings)
