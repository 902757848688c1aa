"""Quota that a team cannot get now, whatever leaves: what asks for it waits without a search.

A full queue is mostly this: on 50,000 GPUs nine of ten refusals of a round are found by sums here, or come right after
one of their own team that asked no more GPUs and was refused by quota.
"""

from typing import NamedTuple

from scheduler.explain.reasons import OF_QUOTA
from scheduler.fit.capacity import Refusal
from scheduler.model.snapshot import FUTURE_IDLE
from scheduler.model.workload import Workload, least
from scheduler.state.session import Session


class Short(NamedTuple):
    """What a claimant asks, or could not get: milli-GPU, at least and in all, and the priority with which it asks."""

    least: int
    wanted: int
    priority: int

    @staticmethod
    def of(workload: Workload) -> "Short":
        """What this one asks."""
        return Short(workload.need_milli(least(workload)), workload.need_milli(workload.missing), workload.priority)


class QuotaShortage:
    """What was in vain, by team, whether the work may be preempted, and pool; as long as the plan changes nothing.

    That holds for all that ask as much or more: what others may be made to give, by reclaim, fair reclaim and
    preemption, only shrinks with what is asked and with a lower priority, and so does what quota then allows. So does
    what elastic gangs give: what they were lent they give to all alike.

    Most need no first search: what may leave for them is too little by sums alone.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[str, bool, str], Short] = {}
        self._at = -1  # the plan's swaps for which it holds

    def covers(self, workload: Workload) -> bool:
        """Whether all that it may use is known to be in vain. A service at risk may take more than others."""
        if workload.at_risk or not workload.uses_gpus:
            return False
        pools, asked = self._session.flavors.pools(workload), Short.of(workload)
        if not pools:
            return False
        if all(self._is_short(workload, pool, asked) for pool in pools):
            return True
        is_covered = self._is_too_little(workload, pools, asked)
        if is_covered and workload.id not in self._session.preemption_limited:
            self._remember(workload, pools, asked)
        return is_covered

    def _is_short(self, workload: Workload, pool: str, asked: Short) -> bool:
        if self._at != self._session.plan.swaps or workload.id in self._session.preemption_limited:
            return False
        short = self._known.get((workload.team, workload.preemptible, pool))
        return (
            short is not None
            and asked.priority <= short.priority
            and asked.least >= short.least
            and asked.wanted >= short.wanted
        )

    def _is_too_little(self, workload: Workload, pools: list[str], asked: Short) -> bool:
        """Whether quota allows it in none of these, and all that may leave for it would free too little.

        By sums alone: a workload that leaves frees no more than it holds. Elastic gangs that may shrink for it are
        left to the searches.
        """
        session, team = self._session, workload.team
        usage, evictable, shares = session.plan.usage, session.evictable, session.entitlement.shares
        lenders, of_team = evictable.lenders, evictable.elastic_of_team
        if lenders or team in of_team or "" in of_team:
            return False
        is_limited = workload.id in session.preemption_limited  # it borrows nothing
        for pool in pools:
            room = (usage.within_nominal if is_limited else usage.available)(team, pool, FUTURE_IDLE)
            may_take_fairly = not is_limited and usage.total[FUTURE_IDLE][team, pool] < shares.get((team, pool), 0)
            if may_take_fairly and evictable.elastic:
                return False
            if asked.least <= max(
                room + evictable.below(team, workload.priority, pool),  # preempt
                usage.owed(team, pool),  # reclaim
                room + self._fair_room(team, pool, asked.wanted) if may_take_fairly else 0,  # fair reclaim
            ):
                return False
        return True

    def _fair_room(self, team: str, pool: str, wanted: int) -> int:
        """The most that fair reclaim could free: of teams that may give as much as one of their workloads holds."""
        session = self._session
        above, spares = session.entitlement.above(pool), session.entitlement.spares(team, pool, wanted)
        latest = session.snapshot.at - session.settings.borrower_runtime_seconds
        least = session.evictable.least_of_teams(pool, latest)[above.numbers]
        return int(spares[spares >= least].sum())

    def note(self, workload: Workload, refusal: Refusal) -> None:
        """A search found nothing to take for it: remember that if it was quota that refused it.

        Not of one that was preempted, as it spares what preempted it.
        """
        session = self._session
        if refusal.reason not in OF_QUOTA:
            return
        if workload.id in session.preemption_limited or workload.preempted_by:
            return
        self._remember(workload, session.flavors.pools(workload), Short.of(workload))

    def _remember(self, workload: Workload, pools: list[str], asked: Short) -> None:
        if self._at != self._session.plan.swaps:
            self._known, self._at = {}, self._session.plan.swaps
        for pool in pools:
            self._known[workload.team, workload.preemptible, pool] = asked
