"""One round under way, as actions see it: the plan, the settings, and what else holds throughout the round.

KAI-Scheduler and Volcano call it a session. It is made for one snapshot and thrown away after the round.
"""

from collections.abc import Callable
from functools import cached_property

from scheduler.backfill.constraints import BackfillConstraints
from scheduler.fit.capacity import Flavors
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Budget
from scheduler.placement.chooser import Chooser
from scheduler.preemption.evictable import Evictable
from scheduler.quota.entitlement import Entitlement
from scheduler.quota.rooms import RoomMemo
from scheduler.quota.tree import Tree
from scheduler.shortcuts import ALL, Shortcuts
from scheduler.state.memo import Memo
from scheduler.state.plan import Plan


class Session:
    """A plan over one snapshot with all that is asked beside it.

    memo: what rounds before left, by default nothing. candidates: what may be evicted, where another session of
    the same world has worked that out already. shortcuts: which of those within searches are in use.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        memo: Memo | None = None,
        candidates: Callable[[], Evictable] | None = None,
        shortcuts: Shortcuts = ALL,
    ) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.memo = Memo() if memo is None else memo
        self.plan = Plan(snapshot, self.memo.ledgers.of(snapshot))
        self.times = self.memo.times(snapshot.history, settings)
        self.over_budget = _over_budget(snapshot, self.plan.usage.tree)  # by team: the budget that is used up
        self.flavors = Flavors(snapshot.inventory, self.plan.usage)
        self.entitlement = Entitlement(self.plan, settings, self.over_budget)
        self.rooms = RoomMemo(self.plan.usage)
        self.constraints = BackfillConstraints(self.plan, self.flavors, settings)
        self.chooser: Chooser | None = None  # of places for single workers and replicas, by the policy; None: best fit
        # Set by the round: preempted so often that it starts within its team's nominal quota only.
        self.preemption_limited: frozenset[str] = frozenset()
        self.shortcuts = shortcuts
        self._candidates = candidates

    @cached_property
    def evictable(self) -> Evictable:
        """The running workloads that may be made to leave, worked out when the first one is looked for."""
        return self._candidates() if self._candidates else Evictable(self.plan, self.settings)

    @property
    def is_full(self) -> bool:
        """Whether the round has made as many changes as it may: the rest is left to the next one."""
        return len(self.plan.log) >= max(1, self.settings.max_changes)


def _over_budget(snapshot: Snapshot, tree: Tree) -> dict[str, Budget]:
    """The used-up budget of each team that has one, its own before its parents'."""
    by_team = {budget.team: budget for budget in reversed(snapshot.budgets) if budget.until > snapshot.at}
    if not by_team:
        return {}
    found = {team: next((by_team[n] for n in path if n in by_team), None) for team, path in tree.paths.items()}
    return {team: budget for team, budget in found.items() if budget is not None}
