"""Scheduling equivalence: a claimant waits behind one of its class that was refused before it in the same round.

A class is all claimants of one team with the same request in every way that placement and quota look at
(`pending.equivalence_of`).
What refuses one refuses all of them with no higher priority, except a planned start that it would delay: that holds
only for those that the same reservations bind. So weak first-come-first-served order holds (docs/promises.md, S14).
"""

from collections import defaultdict
from typing import NamedTuple

from scheduler.cycle.ordering import asks_no_more
from scheduler.explain.reasons import PERMANENT, behind
from scheduler.fit.capacity import Refusal, is_given_wherever
from scheduler.model.decision import Reason
from scheduler.model.workload import Workload
from scheduler.state.session import Session


class First(NamedTuple):
    """The first of a class that was refused: its priority, and what the others are told."""

    number: int  # in the order of refusals
    priority: int
    told: Refusal


class Refusals:
    """Which claimants were refused in this round, and what that means for those behind them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By class, and for those that reservations kept out by class and signature of the reservations.
        self._first: dict[str, First] = {}
        self._added = 0
        self._kept_out: set[str] = set()  # classes that have such longer keys
        self._waiting: defaultdict[str, list[Workload]] = defaultdict(list)  # by team, the first to wait first

    def stands_alone(self, workload: Workload) -> bool:
        """Whether it is refused for itself, so that nothing said of others of its class holds for it."""
        session = self._session
        is_limited = workload.id in session.preemption_limited or workload.id in session.plan.ledger.gated
        is_apart = is_limited or session.plan.has_gpus_of_its_own(workload)
        return bool(workload.after) or is_apart or workload.team in session.over_budget

    def told(self, workload: Workload, equivalence: str) -> Refusal | None:
        """What it is told because one of its class was refused before it; None if none was."""
        if self.stands_alone(workload):
            return None
        if equivalence not in self._kept_out:
            first = self._first.get(equivalence)
            return None if first is None or workload.priority > first.priority else first.told
        # Some reservations were made after the refusal: they can only keep out more.
        signature = self._session.constraints.signature(workload)
        keys = [equivalence + signature[:count] for count in range(len(signature) + 1)]
        # Ageing may put a lower base priority first; a higher one may still preempt. Of several the last one counts.
        found = (self._first[key] for key in keys if key in self._first)
        last = max((first for first in found if workload.priority <= first.priority), default=None)
        return None if last is None else last.told

    def scope_of(self, workload: Workload, equivalence: str, refusal: Refusal) -> str:
        """For which of its class the refusal holds: for all (""), or for those that the same reservations bind.

        Short work may start where work as large, but longer, may not. What does not fit at all does not fit however
        soon it would end.
        """
        if not self.is_kept_out(refusal):
            return ""
        self._kept_out.add(equivalence)
        return self._session.constraints.signature(workload)

    def is_kept_out(self, refusal: Refusal) -> bool:
        """Whether only a planned start of another workload is in its way."""
        return bool(self._session.constraints.reservations) and refusal.reason is Reason.RESERVED_FOR_LARGER_JOB

    def add(self, workload: Workload, key: str, refusal: Refusal, *, may_be_overtaken: bool) -> First:
        """Remember a refusal by class and signature. A permanent one is told to each; it keeps no other behind.

        may_be_overtaken: it is only too long to start before a reservation, so shorter work may go first.
        """
        is_permanent = refusal.reason in PERMANENT
        self._added += 1
        self._first[key] = First(self._added, workload.priority, refusal if is_permanent else behind(workload))
        if not is_permanent and not may_be_overtaken:
            self._waiting[workload.team].append(workload)
        return self._first[key]

    def is_first(self, workload: Workload) -> bool:
        """Whether no other work of its team waits before it for the same pools."""
        flavors = self._session.flavors
        mine = {flavor and flavor.pool for flavor in flavors.of(workload)}
        others = (flavor for other in self._waiting[workload.team] for flavor in flavors.of(other))
        return not any((flavor and flavor.pool) in mine for flavor in others)

    def before(self, workload: Workload) -> Workload | None:
        """The workload of its team that waits and asks no more than this one, if any."""
        if self._went_beside_itself(workload):
            return None
        inventory, mine = self._session.plan.inventory, workload.ask
        earlier = (other for other in self._waiting[workload.team] if asks_no_more(other, workload))
        return next((other for other in earlier if is_given_wherever(inventory, other.ask, mine)), None)

    def _went_beside_itself(self, service: Workload) -> bool:
        """Whether all it was given just now is on GPUs that it has, where no other model may go."""
        plan = self._session.plan
        if not plan.has_gpus_of_its_own(service):
            return False
        has = {a.rank: (a.node, a.gpus) for a in service.placement}
        new = [(a.node, a.gpus) for a in plan.workload(service.id).placement if a.rank not in has]
        nodes, index = plan.inventory.nodes, plan.inventory.index
        return bool(new) and all(at in has.values() and nodes[index[at[0]]].is_advisory for at in new)
