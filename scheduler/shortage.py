"""Quota that a team cannot get now, whoever leaves: who asks as much of it next waits for it without a search.

A full queue is mostly this: of 2,836 claimants refused in rounds of 10,000 GPUs, 1,214 came right after one of their
own team that asked no more GPUs and was refused by quota.
"""

from typing import NamedTuple

from scheduler.fit import flavors
from scheduler.plan import Plan
from scheduler.workload import Workload, least


class Short(NamedTuple):
    """What somebody asks, or could not get: milli-GPU, at least and in all, and the priority with which it asks."""

    least: int
    wanted: int
    priority: int

    @staticmethod
    def of(workload: Workload) -> "Short":
        """What this one asks."""
        return Short(workload.need_milli(least(workload)), workload.need_milli(workload.missing), workload.priority)


class Shortage:
    """What was in vain, by team, whether the work may be preempted, and pool; as long as the plan changes nothing.

    That holds for all that ask as much or more: what others may be made to give, by reclaim, fair reclaim and
    preemption, only shrinks with what is asked and with a lower priority, and so does what quota then allows.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool, str], Short] = {}
        self._at = -1  # the plan's swaps for which it holds

    def covers(self, plan: Plan, workload: Workload) -> bool:
        """Whether all that it may use is known to be in vain."""
        if self._at != plan.swaps or workload.id in plan.worn:
            return False
        options, asked = flavors(plan, workload), Short.of(workload)
        return bool(options) and all(f is not None and self._is_short(workload, f.pool, asked) for f in options)

    def _is_short(self, workload: Workload, pool: str, asked: Short) -> bool:
        short = self._known.get((workload.team, workload.preemptible, pool))
        return (
            short is not None
            and asked.priority <= short.priority
            and asked.least >= short.least
            and asked.wanted >= short.wanted
        )

    def note(self, plan: Plan, workload: Workload) -> None:
        """Quota refused it, and it found nothing to take; not for who was preempted, since it spares who did it."""
        if workload.id in plan.worn or workload.preempted_by:
            return
        if self._at != plan.swaps:
            self._known, self._at = {}, plan.swaps
        asked = Short.of(workload)
        for flavor in flavors(plan, workload):
            if flavor is not None:
                self._known[workload.team, workload.preemptible, flavor.pool] = asked
