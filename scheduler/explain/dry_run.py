"""Dry runs: would the next round place this workload if something were different?

The round of the unchanged world is gone through once, up to the workload's turn. A dry run of another request repeats
what that round decided for as long as the same claimants come in the same order, as a decision depends on nothing but
the plan, what was refused before, what teams are entitled to, and the claimant; from the first difference on it decides
anew. A dry run of another world (quotas, a stop) decides all anew. So each answer is that of `schedule` on the changed
snapshot.
"""

from collections.abc import Callable
from typing import NamedTuple

from scheduler.cycle.ordering import in_order
from scheduler.cycle.round import Answer, Round
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import EvictReason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import Phase, Workload
from scheduler.preemption.evictable import Evictable
from scheduler.shortcuts import EACH_TURN
from scheduler.state.memo import Memo
from scheduler.state.pending import equivalence_of
from scheduler.state.plan import Change
from scheduler.state.session import Session


class _Turn(NamedTuple):
    """What the round of the unchanged world did at one claimant's turn."""

    workload: Workload
    equivalence: str
    answer: Answer
    decisions: tuple[Change | None, ...]
    moves_tried: int  # by consolidation, of which a round has a budget


class DryRuns:
    """All dry runs for one workload. `steps` counts what they cost, about 0.1 ms each; a core has no clock."""

    def __init__(self, snapshot: Snapshot, uid: str, settings: Settings, memo: Memo | None = None) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.asked = snapshot.workloads[uid]
        self.steps = 0
        self._deciding = 1 + len(snapshot.inventory.nodes) // 300  # steps to decide on one claimant
        self._beginning = 5 + len(snapshot.workloads) // 16  # steps to begin a round
        self.session = Session(snapshot, settings, memo)
        self.plan = self.session.plan
        self._round = Round(self.session, EACH_TURN)
        self._past: list[_Turn] = []
        self.refusal: Refusal | None = None  # what the next round tells it; None also if its turn does not come
        self._look()
        # steps of a dry run of another world
        self.dear = self._beginning + (len(self._past) + 1) * self._deciding + self.plan.swaps

    def _look(self) -> None:
        if any(workload.id == self.asked.id for workload in self._round.begin()):
            return
        for workload, equivalence in in_order(self.session):
            if workload.id == self.asked.id:
                self.refusal = self._try(workload, equivalence)
                return
            if self.session.is_full:
                return
            mark = self.plan.mark()
            answer = self._round.answer(workload, equivalence)
            made = tuple(decision for _, decision in self.plan.log[mark:])
            self._round.remember(workload, answer)
            self._past.append(_Turn(workload, equivalence, answer, made, self.session.evictable.moves_tried))

    def probe(self, other: Workload) -> bool:
        """Whether it would be placed if, asking this, its turn came when it comes now. Cheap; usually the truth."""
        return self._try(other, equivalence_of(other)[0]) is None

    def probe_stop(self, uid: str) -> bool:
        """The same for the stop of another workload: as if nothing ahead of it took the room."""
        if self.plan.workload(uid) is not self.snapshot.workloads[uid]:
            return False  # the round has changed it already
        mark = self.plan.mark()
        self.plan.evict(self.plan.workload(uid), EvictReason.PREEMPTED, self.asked.id)
        refusal = self._try(self.asked, equivalence_of(self.asked)[0])
        self.plan.rollback(mark)
        return refusal is None

    def _try(self, workload: Workload, equivalence: str) -> Refusal | None:
        mark, before = self.plan.mark(), self.plan.swaps
        evictable = self.session.evictable
        budget = evictable.moves_tried
        refusal = self._round.answer(workload, equivalence).refusal
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
        """A dry run in which the others hold what they hold: the candidates to leave are the same."""
        evictable = self.session.evictable
        budget, evictable.moves_tried = evictable.moves_tried, 0
        starts = self._starts(world, past, lambda: evictable)
        evictable.moves_tried = budget
        return starts

    def _starts(self, world: Snapshot, past: list[_Turn], candidates: Callable[[], Evictable] | None) -> bool:
        session = Session(world, self.settings, self.session.memo.fork(), candidates)
        starts = self._goes_through(Round(session, EACH_TURN), past)
        self.steps += self._beginning + session.plan.swaps
        return starts

    def _goes_through(self, turns: Round, past: list[_Turn]) -> bool:
        """Go through a round up to the workload's turn; whether it is placed then."""
        if any(workload.id == self.asked.id for workload in turns.begin()):
            return True
        # What the teams are entitled to follows from what all want, so another request may change it for all.
        shares = [session.entitlement.shares for session in (turns.session, self.session)]
        position, is_same = 0, bool(past) and shares[0] == shares[1]
        for workload, equivalence in in_order(turns.session):
            if turns.session.is_full:
                return False
            if workload.id == self.asked.id:
                self.steps += self._deciding
                return turns.answer(workload, equivalence).refusal is None
            is_same = is_same and position < len(past) and _is_at(past[position], workload, equivalence)
            self.steps += (position % 4 == 0) if is_same else self._deciding
            if is_same:
                _repeat(turns, past[position])
                turns.session.evictable.moves_tried = past[position].moves_tried
                position += 1
            else:
                turns.decide(workload, equivalence)
        return False


def may_wait(workload: Workload) -> bool:
    """Whether it waits without a place, so that its ask may still be another one."""
    return workload.phase is Phase.QUEUED and not workload.placement


def _is_at(turn: _Turn, workload: Workload, equivalence: str) -> bool:
    return turn.workload is workload and turn.equivalence == equivalence and None not in turn.decisions


def _repeat(turns: Round, turn: _Turn) -> None:
    for decision in turn.decisions:
        if decision is not None:
            turns.session.plan.repeat(decision)
    turns.remember(turn.workload, turn.answer)
