"""One round, from top to bottom: order, gates, equal claimants, place, make room, undo or refuse.

All is tentative on the session's plan: what the plan holds in the end is decided. What only saves time is asked at
three places, and stands in scheduler/shortcuts.
"""

from collections.abc import Iterator
from typing import NamedTuple

from scheduler.actions.allocate import allocate
from scheduler.actions.backfill import Backfill
from scheduler.actions.catch_up import catch_up, waited_too_long
from scheduler.actions.consolidate import consolidate
from scheduler.actions.fair_reclaim import fair_reclaim
from scheduler.actions.preempt import preempt
from scheduler.actions.reclaim import reclaim
from scheduler.actions.take_surplus import take_surplus
from scheduler.cycle.equivalence import Refusals
from scheduler.cycle.ordering import in_order
from scheduler.explain.reasons import PERMANENT, behind, gate, is_gated, kept_out, permanent, why, would_delay
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Reason
from scheduler.model.workload import Workload, staying
from scheduler.preemption.evictable import preemption_limited
from scheduler.preemption.moving import keep_places, start
from scheduler.shortcuts import ALL, Shortcuts
from scheduler.shortcuts.columns import Columns
from scheduler.shortcuts.partial_cycle import Untried
from scheduler.shortcuts.quota_shortage import QuotaShortage
from scheduler.state.session import Session

Turn = tuple[Workload, Refusal | None]  # a claimant and why it waits on; None: it was placed


class Answer(NamedTuple):
    """What a claimant is told at its turn (None: it was placed), and for which others that holds."""

    refusal: Refusal | None
    equivalence: str
    signature: str = ""  # if it holds only for those that the same reservations bind (equivalence.py)
    was_tried: bool = False  # so others of its class need not be
    may_be_overtaken: bool = False


def lacks_only_standby(workload: Workload) -> bool:
    """Whether all of a service's replicas that are to serve have places: one more would only stand by."""
    return workload.awake is not None and len(staying(workload)) >= workload.awake


class Round:
    """A round under way: what was decided is on the session's plan, what was refused here."""

    def __init__(self, session: Session, shortcuts: Shortcuts = ALL) -> None:
        self.session = session
        self.refusals = Refusals(session)
        self._backfill = Backfill(session)
        self._shortcuts = shortcuts
        self._untried = Untried(session, self.refusals)
        self.quota = QuotaShortage(session) if shortcuts.quota else None
        self.columns: Columns | None = None
        session.chooser = session.memo.choosers.of(session.snapshot, session.settings)

    def run(self) -> Iterator[Turn]:
        """Give each claimant its turn, in order. What comes once the round is full is left to the next one."""
        yield from ((moved, None) for moved in self.begin())
        if self._shortcuts.columns and self.session.snapshot.scope is None:
            self.columns = Columns(self.session)
        for workload, equivalence in in_order(self.session, self.columns.queues if self.columns else None):
            if self.session.is_full:
                return
            yield workload, self.decide(workload, equivalence)

    def begin(self) -> Iterator[Workload]:
        """Workloads that move start where a place was kept for them, before any claimant's turn."""
        session = self.session
        for moved in keep_places(session):
            if permanent(session, moved) is None and (start(session, moved) or allocate(session, moved)):
                yield moved
        session.preemption_limited = preemption_limited(session.plan, session.settings)

    def decide(self, workload: Workload, equivalence: str) -> Refusal | None:
        """The turn of one claimant: place it, or say why not and remember that for those behind it."""
        told = self.refusals.told(workload, equivalence) or self._untried.told_before(workload, equivalence)
        return told or self.remember(workload, self.answer(workload, equivalence))

    def answer(self, workload: Workload, equivalence: str) -> Answer:
        """Place one claimant or say why not; nothing but the plan is changed."""
        session, plan, refusals = self.session, self.session.plan, self.refusals
        # 1. Gates: it waits for something else, for a time, or for its team's next budget.
        if (is_gated(workload) or workload.team in session.over_budget) and (held := gate(session, workload)):
            return Answer(held, equivalence)
        # 2. One of its class was refused: it waits behind that one.
        if told := refusals.told(workload, equivalence):
            return Answer(told, equivalence)
        # 3. A place: one that is free, or one that others leave for it.
        mark = plan.mark()
        refusal = self._place(workload)
        # 4. Overtaken for too long, the first in the queue of its team takes the places of what came after it.
        if refusal is not None and self._catches_up(workload, refusal):
            refusal = None
        # 5. Undo what would overtake another of its team that asks no more: the room that an eviction set free
        #    beyond its need goes to the first in the queue, in the next round.
        is_kept_out = refusal is not None and refusals.is_kept_out(refusal)
        if (refusal is None or is_kept_out) and (overtaken := refusals.before(workload)) is not None:
            plan.rollback(mark)
            refusal, is_kept_out = behind(overtaken, "no more"), False
        # 6. What refuses it refuses the others of its class, unless it was refused for what it went through itself.
        signature = refusals.scope_of(workload, equivalence, refusal) if refusal is not None else ""
        was_tried = workload.id not in session.preemption_limited and not lacks_only_standby(workload)
        return Answer(refusal, equivalence, signature, was_tried, is_kept_out)

    def remember(self, workload: Workload, answer: Answer) -> Refusal | None:
        """Note a refusal, which may make a reservation; what the claimant is told."""
        if answer.refusal is None or not answer.was_tried:
            return answer.refusal
        refusal = self._backfill.consider(workload, answer.refusal)
        key, may_be_overtaken = answer.equivalence + answer.signature, answer.may_be_overtaken
        first = self.refusals.add(workload, key, refusal, may_be_overtaken=may_be_overtaken)
        if self.columns is not None:
            self.columns.tell(workload, answer.signature, first)
        return refusal

    def _place(self, workload: Workload) -> Refusal | None:
        """Place the claimant on free capacity, else where others give way; or say why not."""
        session, plan, constraints = self.session, self.session.plan, self.session.constraints
        if impossible := permanent(session, workload):
            return impossible
        if self.quota is not None and self.quota.covers(workload):
            return why(session, workload)
        constraints.begin_turn(workload)
        if allocate(session, workload):
            return None
        if kept_from := kept_out(session, workload):
            return kept_from  # nothing leaves for what only has to wait for its turn
        mark, missing, tried = plan.mark(), constraints.shortfall(workload), session.evictable.tried
        if not self._make_room(workload):
            refusal = why(session, workload)
            if self.quota is not None and session.evictable.tried == tried:
                self.quota.note(workload, refusal)
            return refusal
        if constraints.shortfall(workload) > missing:
            plan.rollback(mark)
            return would_delay(session, workload)
        return None

    def _make_room(self, workload: Workload) -> bool:
        """Place the claimant where others give way; whether it could."""
        session = self.session
        if session.evictable.elastic and take_surplus(session, workload):
            return True
        for may_evict in (False, True):  # nothing leaves while elastic gangs can make the room
            if not may_evict and not session.evictable.elastic:
                continue
            if may_evict and lacks_only_standby(workload):
                return False  # nothing ends for a replica that would only stand by
            if any(take(session, workload, may_evict) for take in (reclaim, fair_reclaim, preempt)):
                return True
        return consolidate(session, workload)

    def _catches_up(self, workload: Workload, refusal: Refusal) -> bool:
        """Whether the first in the queue of its team, long overtaken, gets room from what came after it."""
        session, plan, constraints = self.session, self.session.plan, self.session.constraints
        if refusal.reason in PERMANENT or refusal.reason is Reason.RESERVED_FOR_LARGER_JOB:
            return False
        if lacks_only_standby(workload):
            return False
        if not waited_too_long(session, workload) or not self.refusals.is_first(workload):
            return False
        mark, missing = plan.mark(), constraints.shortfall(workload)
        if catch_up(session, workload) and constraints.shortfall(workload) <= missing:
            return True
        plan.rollback(mark)
        return False
