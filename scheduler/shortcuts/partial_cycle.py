"""A partial cycle: claimants that wait before one of the dirty set keep what the last full cycle told them."""

from scheduler.cycle.equivalence import Refusals
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Reason
from scheduler.model.workload import Workload
from scheduler.state.session import Session


class Untried:
    """Which claimants of a partial cycle (model/partial_cycle.py) are not tried again. In a full cycle: none."""

    def __init__(self, session: Session, refusals: Refusals) -> None:
        self._session, self._refusals = session, refusals

    def told_before(self, workload: Workload, equivalence: str) -> Refusal | None:
        """What the last full cycle told a claimant that is not in the dirty set; None if it is to be tried."""
        scope = self._session.snapshot.scope
        if scope is None or workload.team in scope.teams or workload.id in scope.asked or not workload.reason:
            return None
        if self._refusals.stands_alone(workload):
            return None
        refusal = Refusal(Reason(workload.reason), workload.message)
        if refusal.reason is not Reason.BEHIND_HIGHER_PRIORITY:
            key = equivalence + self._refusals.scope_of(workload, equivalence, refusal)
            may_be_overtaken = self._refusals.is_kept_out(refusal)
            self._refusals.add(workload, key, refusal, may_be_overtaken=may_be_overtaken)
        return refusal
