"""Elastic gangs: trainings that run with fewer workers than they want, down to their minimum, or with more.

To shrink is no preemption: the gang goes on with its other workers, loses no attempt and may be asked at any time,
also if it may not be preempted; what it holds beyond its minimum is room that it was lent. What it holds beyond its
count goes first, to whatever claimant can use the room. Its lowest rank stays always, for the gang meets there.
Source: DRAGON's scale-down (docs/algorithms.md#making-room).
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from scheduler.fit.capacity import allowed_nodes
from scheduler.fit.claim import fits, quota_room
from scheduler.fit.gang import Goal, find_places
from scheduler.model.decision import Shrink, Whose
from scheduler.model.mention import counted, mention
from scheduler.model.snapshot import FUTURE_IDLE, Flavor, Ints, applied
from scheduler.model.workload import Workload, can_shrink, least, owned, staying, surplus
from scheduler.state.session import Session

Ranks = dict[str, set[int]]  # ranks that leave, by workload
MayShrink = Callable[[Workload], bool]  # asked again before each worker, of the gang as it would be


def may_shrink_for(claimant: Workload) -> MayShrink:
    """Which elastic gangs give workers to a claimant of their own team: those of no higher priority, and to a service
    at risk of missing its objective all."""
    at_risk = claimant.at_risk
    return lambda gang: gang.team == claimant.team and (at_risk or gang.priority <= claimant.priority)


def has_surplus(gang: Workload) -> bool:
    """Whether it has workers that it gives to any claimant."""
    return surplus(gang) > 0


class Lent:
    """Workers beyond their gangs' minimum, given to one claimant on a plan; nothing of it is decided yet."""

    def __init__(self, session: Session, claimant: Workload, gangs: Iterable[Workload], is_owed: bool) -> None:
        self.session, self.plan, self.claimant, self.is_owed = session, session.plan, claimant, is_owed
        self.gangs = {gang.id: gang for gang in gangs}
        self.given: Ranks = {}
        self._order: list[tuple[str, int]] = []

    def fits(self) -> bool:
        """Whether the claimant fits once all that was given has left."""
        return fits(self.session, self.claimant, FUTURE_IDLE, self.is_owed)

    def could_fit(self) -> bool:
        """Whether the claimant could fit if all gave all they have: cheap, and most claimants end here."""
        session, plan, claimant = self.session, self.plan, self.claimant
        goal = Goal(least(claimant), least(claimant))
        options = [flavor for flavor in session.flavors.of(claimant) if self._could_hold(flavor, goal.least)]
        session.evictable.tried += bool(options)
        if not options:
            return False
        free = session.evictable.free_with(plan, list(self.gangs.values()))
        return any(find_places(plan.inventory, claimant, goal, free, flavor) is not None for flavor in options)

    def _could_hold(self, flavor: Flavor | None, workers: int) -> bool:
        """Whether quota would allow so many of its workers in the flavor's pool if these gangs held nothing."""
        if flavor is None:
            return True
        held = self.session.evictable.held_by_teams(self.gangs.values(), flavor.pool)
        with self.plan.usage.assuming(flavor.pool, FUTURE_IDLE, [(team, -milli) for team, milli in held]):
            return quota_room(self.session, self.claimant, flavor, FUTURE_IDLE, self.is_owed) >= workers

    def give_all(self, may: MayShrink) -> None:
        """Take all that they may give, and have not given yet."""
        for rule in (has_surplus, may):
            for node in self._nodes():
                self._give_on(node, rule)

    def give_again(self, may: MayShrink) -> None:
        """The same on a plan that was rolled back to what it was before anything was given."""
        self.given.clear()
        self._order.clear()
        self.give_all(may)

    def give(self, may: MayShrink) -> bool:
        """Take worker after worker, the nodes that lack least first; whether the claimant fits then.

        First those beyond the count of their gang, and only if they do not suffice others too.
        """
        return self._give(has_surplus) or self._give(may)

    def _give(self, may: MayShrink) -> bool:
        """The same for those that may go by one rule.

        One worker must find its room on one node, so what a node gave in vain is put back before the next one. If
        it fits nowhere, all are given: it may be quota that is missing, or others may have to leave as well.
        """
        is_single = least(self.claimant) == 1 and not self.claimant.roles
        for node in (nodes := self._nodes()):
            mark = len(self._order)
            if self._give_on(node, may) and self.fits():
                return True
            if is_single:
                self._take_back(mark)
        for node in nodes if is_single else []:
            self._give_on(node, may)
        return bool(self._order) and self.fits()

    def prune(self, but: Iterable[str] = ()) -> None:
        """Give back every worker without which the claimant fits as well, those taken last first."""
        spared = set(but)
        for uid, rank in reversed(self._order):
            if uid not in spared:
                self._set(uid, self.given[uid] - {rank})
                if not self.fits():
                    self._set(uid, self.given[uid] | {rank})

    def decide(self, but: Iterable[str] = ()) -> list[str]:
        """Decide what is still given, on a plan that was rolled back; the gangs that shrink."""
        spared, name = set(but), mention(self.claimant.id)
        shrunk = [uid for uid, ranks in self.given.items() if ranks and uid not in spared]
        for uid in shrunk:
            gang, ranks = self.gangs[uid], self.given[uid]
            left, gives = len(staying(gang)) - len(ranks), counted(len(ranks), "worker")
            floor = f"it asked for {gang.gang.count}" if surplus(gang) else f"its minimum is {gang.gang.min}"
            message = f"Gives {gives} to {name} and goes on with {left}; {floor}."
            self.plan.shrink(gang, ranks, self.claimant.id, message, self._whose(gang))
        return shrunk

    def _whose(self, gang: Workload) -> Whose:
        """Whose GPUs a gang gives, as it is before it gives any."""
        if surplus(gang):
            return Whose.SURPLUS
        if gang.team == self.claimant.team:
            return Whose.TEAM
        return Whose.OWNED if self.is_owed else Whose.FAIR_SHARE

    def _nodes(self) -> list[int]:
        """Nodes where spare workers run and the claimant may, those first where fewest whole GPUs are missing."""
        plan, ask, index = self.plan, self.claimant.ask, self.plan.inventory.index
        options = self.session.flavors.of(self.claimant)
        if not options:
            return []
        allowed = np.logical_or.reduce([allowed_nodes(plan.inventory, ask, flavor) for flavor in options])
        names = {a.node for gang in self.gangs.values() for a in gang.placement if a.node in index}
        idle: Ints = plan.free[FUTURE_IDLE].idle
        found = [index[name] for name in names if allowed[index[name]]]
        elsewhere = [index[name] for name in names if not allowed[index[name]]]  # frees quota only
        return [*sorted(found, key=lambda node: (max(0, ask.gpus - int(idle[node])), node)), *sorted(elsewhere)]

    def _give_on(self, node: int, may: MayShrink) -> bool:
        before = len(self._order)
        for uid, rank in self._workers_on(self.plan.inventory.nodes[node].name):
            now = self.plan.workload(uid)
            if can_shrink(now) and may(now):
                self._set(uid, self.given.get(uid, set()) | {rank})
                self._order.append((uid, rank))
        return len(self._order) > before

    def _workers_on(self, node: str) -> Iterator[tuple[str, int]]:
        """Workers there that may leave: gangs of the lowest priority and the latest first, highest ranks first."""
        for gang in sorted(self.gangs.values(), key=lambda g: (g.priority, -g.seq)):
            here = {a.rank for a in gang.placement if a.node == node and not a.leaving}
            for rank in reversed(owned(gang)[1:]):
                if rank in here:
                    yield gang.id, rank

    def _take_back(self, mark: int) -> None:
        while len(self._order) > mark:
            uid, rank = self._order.pop()
            self._set(uid, self.given[uid] - {rank})

    def _set(self, uid: str, ranks: set[int]) -> None:
        gang = self.gangs[uid]
        self.given[uid] = ranks
        decision = Shrink(uid, gang.version, tuple(sorted(ranks)), by=self.claimant.id)
        self.plan.put(applied(gang, decision, self.plan.snapshot.at) if ranks else gang)
