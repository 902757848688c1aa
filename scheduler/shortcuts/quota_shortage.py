"""Quota that a team cannot get now, whatever leaves: what asks as much of it next waits without a search.

A full queue is mostly this: of 2,836 claimants refused in rounds of 10,000 GPUs, 1,214 came right after one of their
own team that asked no more GPUs and was refused by quota.
"""

from typing import NamedTuple

from scheduler.explain.reasons import OF_QUOTA
from scheduler.fit.capacity import Refusal
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
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[str, bool, str], Short] = {}
        self._at = -1  # the plan's swaps for which it holds

    def covers(self, workload: Workload) -> bool:
        """Whether all that it may use is known to be in vain. A service at risk may take more than others."""
        session = self._session
        if self._at != session.plan.swaps or workload.id in session.preemption_limited or workload.at_risk:
            return False
        options, asked = session.flavors.of(workload), Short.of(workload)
        return bool(options) and all(f is not None and self._is_short(workload, f.pool, asked) for f in options)

    def _is_short(self, workload: Workload, pool: str, asked: Short) -> bool:
        short = self._known.get((workload.team, workload.preemptible, pool))
        return (
            short is not None
            and asked.priority <= short.priority
            and asked.least >= short.least
            and asked.wanted >= short.wanted
        )

    def note(self, workload: Workload, refusal: Refusal) -> None:
        """A search found nothing to take for it: remember that if it was quota that refused it.

        Not of one that was preempted, as it spares what preempted it.
        """
        session, swaps = self._session, self._session.plan.swaps
        if refusal.reason not in OF_QUOTA:
            return
        if workload.id in session.preemption_limited or workload.preempted_by:
            return
        if self._at != swaps:
            self._known, self._at = {}, swaps
        asked = Short.of(workload)
        for flavor in session.flavors.of(workload):
            if flavor is not None:
                self._known[workload.team, workload.preemptible, flavor.pool] = asked
