"""Preempt: work of higher priority takes the place of its own team's lower work."""

from scheduler.model.decision import EvictReason
from scheduler.model.mention import mention
from scheduler.model.workload import Kind, Workload
from scheduler.preemption.elastic import may_shrink_for
from scheduler.preemption.victims import Conditions, make_room, search
from scheduler.state.session import Session


def preempt(session: Session, claimant: Workload, may_evict: bool = True) -> bool:
    """Place a claimant by making its team's lower priorities leave; whether it could.

    Base priorities count: work that only waited long preempts nothing. Elastic gangs of its team shrink for it at
    equal priority too: nothing that runs is ended. A service at risk of missing its objective takes the place of its
    team's trainings whatever their priority; what it has promised is a matter of now, and they go on later.
    """
    evictable = session.evictable
    numbers = evictable.of_team(claimant.team)
    if not numbers.size and not evictable.elastic:
        return False

    def may_take(victim: Workload) -> bool:
        is_training = victim.kind == Kind.TRAINING
        return victim.priority < claimant.priority or (claimant.at_risk and is_training)

    def message(victim: Workload) -> str:
        if victim.priority >= claimant.priority:
            return f"Makes room for {mention(claimant.id)}, which is at risk of missing its objective."
        return f"Makes room for {mention(claimant.id)} (priority {claimant.priority}, this one has {victim.priority})."

    lower = numbers if claimant.at_risk else numbers[evictable.priority[numbers] < claimant.priority]
    may_shrink, may_ask = may_shrink_for(claimant), claimant.team.__eq__
    conditions = Conditions(EvictReason.PREEMPTED, False, may_take, message, may_shrink, may_ask, may_evict)
    return make_room(search(session, claimant, lower, conditions))
