"""Trial rounds: would the next round place this workload if something were different?

The round of the unchanged world is gone through once, up to the workload's turn. A trial of another ask repeats what
that round decided for as long as the same claimants come in the same order, since a decision depends on nothing but
the plan, who was refused before, what teams are entitled to, and the claimant; from the first difference on it decides
anew. A trial of another world (quotas, a stop) decides all anew. So each trial's answer is that of `schedule` on the
changed snapshot.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from scheduler.decision import EvictReason
from scheduler.evictable import Evictable
from scheduler.fairshare import entitled
from scheduler.fit import Refusal
from scheduler.line import shape_of
from scheduler.ordering import in_order
from scheduler.plan import Change, Plan
from scheduler.schedule import Answer, Round
from scheduler.settings import Settings
from scheduler.snapshot import Snapshot
from scheduler.workload import Phase, Workload


class _Turn(NamedTuple):
    """What the round of the unchanged world did at one claimant's turn."""

    workload: Workload
    shape: str
    answer: Answer
    decisions: tuple[Change | None, ...]
    moves_tried: int  # by consolidation, of which a round has a budget


class Trials:
    """All trials for one workload. `steps` counts what they cost, about 0.1 ms each; a core has no clock."""

    def __init__(self, snapshot: Snapshot, uid: str, settings: Settings) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.asked = snapshot.workloads[uid]
        self.steps = 0
        self._deciding = 1 + len(snapshot.inventory.nodes) // 300  # steps to decide on one claimant
        self._beginning = 5 + len(snapshot.workloads) // 16  # steps to begin a round
        self.plan = Plan(snapshot)
        self._evictable = cache(lambda: Evictable(self.plan, settings))
        self._round = Round(self.plan, settings, self._evictable)
        self._past: list[_Turn] = []
        self.refusal: Refusal | None = None  # what the next round tells it; None also if its turn does not come
        self._look()
        # steps of a trial of another world
        self.dear = self._beginning + (len(self._past) + 1) * self._deciding + self.plan.swaps

    def _look(self) -> None:
        if any(workload.id == self.asked.id for workload in self._round.begin()):
            return
        for workload, shape in in_order(self.plan, self.settings):
            if workload.id == self.asked.id:
                self.refusal = self._try(workload, shape)
                return
            if self._round.is_full:
                return
            mark = self.plan.mark()
            answer = self._round.answer(workload, shape)
            made = tuple(decision for _, decision in self.plan.log[mark:])
            self._round.remember(workload, answer)
            self._past.append(_Turn(workload, shape, answer, made, self._evictable().moves_tried))

    def probe(self, other: Workload) -> bool:
        """Whether it would be placed if, asking this, its turn came when it comes now. Cheap; usually the truth."""
        return self._try(other, shape_of(other)[0]) is None

    def probe_stop(self, uid: str) -> bool:
        """The same for the stop of another workload: as if nobody who goes first took the room."""
        if self.plan.workload(uid) is not self.snapshot.workloads[uid]:
            return False  # the round has changed it already
        mark = self.plan.mark()
        self.plan.evict(self.plan.workload(uid), EvictReason.PREEMPTED, self.asked.id)
        refusal = self._try(self.asked, shape_of(self.asked)[0])
        self.plan.rollback(mark)
        return refusal is None

    def _try(self, workload: Workload, shape: str) -> Refusal | None:
        mark, before = self.plan.mark(), self.plan.swaps
        evictable, budget = self._evictable(), self._evictable().moves_tried
        refusal = self._round.answer(workload, shape).refusal
        self.plan.rollback(mark)
        evictable.moves_tried = budget
        self.steps += self._deciding + self.plan.swaps - before
        return refusal

    def starts_with(self, other: Workload) -> bool:
        """Whether the next round would place it if it asked this or had this priority. It must hold no place yet."""
        past = [] if self.asked.moving else self._past
        return self._starts_beside(self.snapshot.replace(changed=(other,)), past)

    def starts_under(self, world: Snapshot) -> bool:
        """Whether the next round would place it under other quotas."""
        return self._starts_beside(world, [])

    def starts_in(self, world: Snapshot) -> bool:
        """Whether the next round would place it in another world."""
        return self._starts(world, [], None)

    def _starts_beside(self, world: Snapshot, past: list[_Turn]) -> bool:
        """A trial in which the others hold what they hold: the candidates to leave are the same."""
        evictable = self._evictable()
        budget, evictable.moves_tried = evictable.moves_tried, 0
        starts = self._starts(world, past, self._evictable)
        evictable.moves_tried = budget
        return starts

    def _starts(self, world: Snapshot, past: list[_Turn], evictable: Callable[[], Evictable] | None) -> bool:
        plan = Plan(world)
        turns = Round(plan, self.settings, evictable)
        starts = self._goes_through(turns, past)
        self.steps += self._beginning + plan.swaps
        return starts

    def _goes_through(self, turns: Round, past: list[_Turn]) -> bool:
        """Go through a round up to the workload's turn; whether it is placed then."""
        if any(workload.id == self.asked.id for workload in turns.begin()):
            return True
        # What the teams are entitled to follows from what all want, so another ask may change it for everybody.
        shares = [entitled(plan, self.settings) for plan in (turns.plan, self.plan)]
        position, is_same = 0, bool(past) and shares[0] == shares[1]
        for workload, shape in in_order(turns.plan, self.settings):
            if turns.is_full:
                return False
            if workload.id == self.asked.id:
                self.steps += self._deciding
                return turns.answer(workload, shape).refusal is None
            is_same = is_same and position < len(past) and _is_at(past[position], workload, shape)
            self.steps += (position % 4 == 0) if is_same else self._deciding
            if is_same:
                _repeat(turns, past[position])
                turns.evictable().moves_tried = past[position].moves_tried
                position += 1
            else:
                turns.decide(workload, shape)
        return False


def may_wait(workload: Workload) -> bool:
    """Whether it waits without a place, so that its ask may still be another one."""
    return workload.phase is Phase.QUEUED and not workload.placement


def _is_at(turn: _Turn, workload: Workload, shape: str) -> bool:
    return turn.workload is workload and turn.shape == shape and None not in turn.decisions


def _repeat(turns: Round, turn: _Turn) -> None:
    for decision in turn.decisions:
        if decision is not None:
            turns.plan.repeat(decision)
    turns.remember(turn.workload, turn.answer)
