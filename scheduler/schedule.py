"""`schedule`: one round, from a frozen snapshot to decisions."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from scheduler.actions.allocate import allocate
from scheduler.actions.backfill import Backfill
from scheduler.actions.catch_up import catch_up, waited_too_long
from scheduler.actions.consolidate import consolidate
from scheduler.actions.fair_reclaim import fair_reclaim
from scheduler.actions.grow import grow
from scheduler.actions.preempt import preempt
from scheduler.actions.reclaim import reclaim
from scheduler.beside import begin_turn, shortfall, terms
from scheduler.decision import Decision, Reason, Wait
from scheduler.evictable import Evictable, worn
from scheduler.fit import Refusal, flavors
from scheduler.moving import keep_places
from scheduler.ordering import asks_no_more, in_order
from scheduler.passing import Passing, is_time
from scheduler.placement.chooser import chooser_of
from scheduler.plan import Plan
from scheduler.reasons import (
    OF_QUOTA,
    PERMANENT,
    awaiting,
    behind,
    gate,
    is_gated,
    kept_out,
    permanent,
    why,
    would_delay,
)
from scheduler.scope import Starts
from scheduler.settings import Settings
from scheduler.shortage import Shortage
from scheduler.snapshot import Snapshot
from scheduler.workload import Phase, Workload

_RESERVED = Reason.RESERVED_FOR_LARGER_JOB


def schedule(snapshot: Snapshot, settings: Settings) -> tuple[Decision, ...]:
    """Decide which work runs where, which has to leave, and why the rest waits.

    A function of its input: the same snapshot gives the same decisions, byte for byte, and a
    snapshot in which nothing can change gives none.
    """
    return decide(snapshot, settings)[0]


def decide(snapshot: Snapshot, settings: Settings) -> tuple[tuple[Decision, ...], Starts]:
    """What `schedule` decides, and the planned starts of the heads that wait on."""
    # 1. Copy the columns once; all that follows is tentative on this plan.
    plan = Plan(snapshot)
    # 2. Go through the claimants: teams furthest below their entitlement first, then by class, priority, age.
    # 3. Each one passes its gates and gets a place: free, reclaimed or preempted; or a reason.
    reserved = sorted((w for w in plan.reserved.values() if w.phase is Phase.RESERVED), key=lambda w: w.seq)
    turns = Round(plan, settings)
    refused = [(w, refusal) for w, refusal in take_turns(turns, passes=snapshot.scope is None) if refusal is not None]
    news = [(w, refusal) for w, refusal in refused if is_news(w, refusal, snapshot.at, settings)]
    news += turns.passing.news() if turns.passing else ()
    # 4. Those that were given places earlier but cannot use them yet have a reason as well.
    having = ((workload, awaiting(plan, workload)) for workload in reserved)
    news += [(w, refusal) for w, refusal in having if is_news(w, refusal, snapshot.at, settings)]
    # 5. Room that nothing waits for lets elastic gangs grow again.
    if len(plan.log) < settings.most_changes and snapshot.scope is None:
        grow(plan, refused, settings)
    # A service may be refused more replicas and then have to leave: that says enough.
    moved = {decision.workload for decision in plan.decisions}
    starts = tuple((kept.workload.id, kept.start) for kept in plan.reservations)
    return (*plan.decisions, *(Wait(w.id, w.version, *refusal) for w, refusal in news if w.id not in moved)), starts


def outcomes(plan: Plan, settings: Settings) -> Iterator[tuple[Workload, Refusal | None]]:
    """Try each claimant in order on the plan; None = it was placed.

    A claimant that asks what an earlier one of its team was refused waits behind it without a search of its own:
    that keeps weak first-come-first-served order (docs/promises.md, S14), and a round with thousands waiting fast.
    What comes after `most_changes` is left to the next round, which sees the same order.
    """
    return take_turns(Round(plan, settings), passes=False)


def take_turns(turns: "Round", *, passes: bool) -> Iterator[tuple[Workload, Refusal | None]]:
    """The claimants that have a turn. With `passes`, `turns.passing` knows what the others, passed over, are told."""
    plan, settings = turns.plan, turns.settings
    yield from ((workload, None) for workload in turns.begin())
    turns.passing = Passing(plan, settings) if passes else None
    for workload, shape in in_order(plan, settings, turns.passing.queues if turns.passing else None):
        if turns.is_full:
            return
        yield workload, turns.decide(workload, shape)


class Answer(NamedTuple):
    """What a claimant is told when its turn comes: None = it was placed; and for which others that holds."""

    refusal: Refusal | None
    shape: str
    terms: str = ""  # if it only holds for those on which reservations weigh alike (reservation.terms)
    is_kept: bool = False  # it was tried, so others that ask the same need not be
    may_be_overtaken: bool = False


class Round:
    """A round under way: the plan so far, what was refused on it, what may be made to leave."""

    def __init__(self, plan: Plan, settings: Settings, evictable: Callable[[], Evictable] | None = None) -> None:
        self.plan = plan
        self.settings = settings
        self.refused = Refused()
        self.shortage = Shortage()
        self.passing: Passing | None = None  # what has no turn of its own; None: everything has
        self._apart: frozenset[str] = frozenset()  # refused for itself, or keeps nothing else back
        self.evictable = evictable or cache(lambda: Evictable(plan, settings))
        self._backfill = Backfill(plan, settings)
        plan.chooser = chooser_of(plan.snapshot, settings)

    @property
    def is_full(self) -> bool:
        """Whether the rest is left to the next round."""
        return len(self.plan.log) >= max(1, self.settings.most_changes)

    def begin(self) -> Iterator[Workload]:
        """Keep the places of workloads that consolidation moves; those that start there now, before anybody's turn."""
        yield from (workload for workload in keep_places(self.plan) if _starts_again(self.plan, workload))
        self.plan.worn = worn(self.plan, self.settings)
        self._apart = self.plan.worn.union(self.plan.ledger.gated)

    def decide(self, workload: Workload, shape: str) -> Refusal | None:
        """Place the claimant whose turn it is, or say why not and remember that."""
        told = self._told(workload, shape) or self._told_before(workload, shape)
        return told or self.remember(workload, self.answer(workload, shape))

    def _told_before(self, workload: Workload, shape: str) -> Refusal | None:
        """What the last whole round told a claimant that is only in line before one with news (scheduler/scope.py)."""
        scope, plan = self.plan.snapshot.scope, self.plan
        if scope is None or workload.team in scope.teams or workload.id in scope.asked or not workload.reason:
            return None
        if workload.after or workload.id in self._apart or workload.team in plan.spent:
            return None
        refusal = Refusal(Reason(workload.reason), workload.message)
        if refusal.reason is not Reason.BEHIND_HIGHER_PRIORITY:
            is_too_long = bool(plan.reservations) and refusal.reason is _RESERVED
            key = shape + self._terms(workload, shape, is_too_long)
            self.refused.add(workload, key, refusal, may_be_overtaken=is_too_long)
        return refusal

    def _told(self, workload: Workload, shape: str) -> Refusal | None:
        """What it is told without a look at it: most that wait ask what one before them was refused."""
        plan, refused = self.plan, self.refused
        if workload.after or workload.id in self._apart or workload.team in plan.spent:
            return None
        first = refused.by_shape.get(shape)
        if first is None and shape in refused.too_long:
            # Some reservations were made after the refusal: they can only keep out more.
            weigh = terms(plan, workload)
            keys = (shape + weigh[:count] for count in range(len(weigh), 0, -1))
            first = next((refused.by_shape[key] for key in keys if key in refused.by_shape), None)
        # Ageing may put a lower base priority first; a higher one may still preempt.
        return first[1] if first is not None and workload.priority <= first[0] else None

    def remember(self, workload: Workload, answer: Answer) -> Refusal | None:
        """Note a refusal, which may make a reservation; what the claimant is told."""
        if answer.refusal is None or not answer.is_kept:
            return answer.refusal
        refusal = self._backfill.consider(workload, answer.refusal)
        key = answer.shape + answer.terms
        self.refused.add(workload, key, refusal, may_be_overtaken=answer.may_be_overtaken)
        if self.passing is not None:
            self.passing.tell(workload, answer.terms, *self.refused.by_shape[key])
        return refusal

    def answer(self, workload: Workload, shape: str) -> Answer:
        """Place one claimant or say why not; nothing but the plan is changed."""
        plan, refused = self.plan, self.refused
        if (is_gated(workload) or workload.team in plan.spent) and (held := gate(plan, workload)):
            return Answer(held, shape)
        if told := self._told(workload, shape):
            return Answer(told, shape)
        is_worn = workload.id in plan.worn  # what keeps it back keeps nobody else
        mark = plan.mark()
        refusal = attempt(plan, workload, self.evictable, self.settings, self.shortage)
        if refusal is not None and self._catches_up(workload, refusal):
            refusal = None
        is_too_long = bool(plan.reservations) and refusal is not None and refusal.reason is _RESERVED
        if (refusal is None or is_too_long) and (overtaken := refused.before(workload)) is not None:
            plan.rollback(mark)  # what an eviction set free beyond its need goes to the first in line, next round
            refusal, is_too_long = behind(overtaken, "no more"), False
        return Answer(refusal, shape, self._terms(workload, shape, is_too_long), not is_worn, is_too_long)

    def _catches_up(self, workload: Workload, refusal: Refusal) -> bool:
        """Whether the first in line of its team, long overtaken, gets room from what came after it."""
        plan, settings = self.plan, self.settings
        if refusal.reason in PERMANENT or refusal.reason is _RESERVED or not waited_too_long(plan, workload, settings):
            return False
        if not self.refused.is_first(plan, workload):
            return False
        mark, missing = plan.mark(), shortfall(plan, workload)
        if catch_up(plan, workload, self.evictable(), settings) and shortfall(plan, workload) <= missing:
            return True
        plan.rollback(mark)
        return False

    def _terms(self, workload: Workload, shape: str, is_too_long: bool) -> str:
        """What a refusal holds for: all that asks the same (""), or only what reservations keep out as well.

        Short work may start where work as large, but longer, may not. What does not fit at all does not fit however
        soon it would end.
        """
        if not is_too_long:
            return ""
        self.refused.too_long.add(shape)
        return terms(self.plan, workload)


def _starts_again(plan: Plan, moved: Workload) -> bool:
    """Give a workload that consolidation moved the place that was kept for it, before any other turn."""
    return permanent(plan, moved) is None and allocate(plan, moved)


class Refused:
    """The claimants that were refused in this round: the first of each shape, and what those behind it are told."""

    def __init__(self) -> None:
        self.by_shape: dict[str, tuple[int, Refusal]] = {}  # its priority, what the others are told
        self.too_long: set[str] = set()  # shapes of which some are kept out by reservations: these have longer keys
        self._waiting: defaultdict[str, list[Workload]] = defaultdict(list)

    def add(self, workload: Workload, shape: str, refusal: Refusal, *, may_be_overtaken: bool = False) -> None:
        """Remember a refusal. A permanent one is told to each; it keeps no other behind.

        may_be_overtaken: it is only too long to start before a reservation, so shorter work may go first.
        """
        is_permanent = refusal.reason in PERMANENT
        self.by_shape[shape] = (workload.priority, refusal if is_permanent else behind(workload))
        if not is_permanent and not may_be_overtaken:
            self._waiting[workload.team].append(workload)

    def is_first(self, plan: Plan, workload: Workload) -> bool:
        """Whether no other work of its team waits before it for the same pools."""
        mine = {flavor and flavor.pool for flavor in flavors(plan, workload)}
        others = (flavor for other in self._waiting[workload.team] for flavor in flavors(plan, other))
        return not any((flavor and flavor.pool) in mine for flavor in others)

    def before(self, workload: Workload) -> Workload | None:
        """The workload of its team that waits and asks no more than this one, if any."""
        return next((other for other in self._waiting[workload.team] if asks_no_more(other, workload)), None)


def attempt(
    plan: Plan, workload: Workload, evictable: Callable[[], Evictable], settings: Settings, shortage: Shortage
) -> Refusal | None:
    """Place one claimant, or say why not."""
    impossible = permanent(plan, workload)
    if impossible is not None:
        return impossible
    if shortage.covers(plan, workload):
        return why(plan, workload)
    begin_turn(plan, workload, settings)
    if allocate(plan, workload):
        return None
    kept_from = kept_out(plan, workload)
    if kept_from is not None:
        return kept_from  # nothing leaves for what only has to wait for its turn
    mark, missing, tried = plan.mark(), shortfall(plan, workload), evictable().tried
    if _make_room(plan, workload, evictable, settings):
        if shortfall(plan, workload) <= missing:
            return None
        plan.rollback(mark)
        return would_delay(plan, workload)
    refusal = why(plan, workload)
    if refusal.reason in OF_QUOTA and evictable().tried == tried and not evictable().elastic:
        shortage.note(plan, workload)
    return refusal


def _make_room(plan: Plan, workload: Workload, evictable: Callable[[], Evictable], settings: Settings) -> bool:
    """Place one claimant where others give way; whether it could."""
    for may_evict in (False, True):  # nothing leaves while elastic gangs can make the room
        if not may_evict and not evictable().elastic:
            continue
        if any(take(plan, workload, evictable(), settings, may_evict) for take in (reclaim, fair_reclaim, preempt)):
            return True
    return consolidate(plan, workload, evictable(), settings)


def is_news(workload: Workload, refusal: Refusal, at: float, settings: Settings) -> bool:
    """Whether a reason is worth writing: another code at once, other words only after a while."""
    if workload.reason != refusal.reason:
        return True
    if workload.message == refusal.message:
        return False
    return bool(is_time(workload.reason_at, workload.queued_at, at, settings))
