"""Whose turn it is: teams by how little they hold of what they are entitled to, then workloads within a team."""

import heapq
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.cycle.precedence import order_keys, precedence
from scheduler.model.decision import Evict, Shrink
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE
from scheduler.model.workload import Kind, Workload
from scheduler.state.pending import NEED, PendingQueue
from scheduler.state.plan import Plan
from scheduler.state.session import Session

Claim = tuple[tuple[float, int, int], ...]
Turn = tuple[bool, Claim, str]  # whether its next claimant borrows, how much it holds, the team


class Next(NamedTuple):
    """A claimant, the text of its equivalence class and the milli-GPU it needs at least."""

    workload: Workload
    equivalence: str
    need: int

    @staticmethod
    def of(pending: PendingQueue, slot: int) -> "Next":
        """The one in this row of the pending queue."""
        return Next(pending.workload(slot), pending.equivalence(slot), int(pending.ints[slot, NEED]))


def in_order(session: Session, queues: "Mapping[str, Queue] | None" = None) -> Iterator[tuple[Workload, str]]:
    """Claimants and their equivalence classes in order; what the plan decides between two moves their teams back.

    Of `queues` those that have a turn there, without them all.

    Teams whose next claimant stays within what they own come before those that would borrow (Kueue's rule), then
    those furthest below their entitlement. Within a team the fixed comparison of `scheduler/cycle/precedence.py` holds:
    class, priority with ageing, attained service, failures, submission. One that was placed or made to leave before
    its turn is left out.
    """
    plan = session.plan
    queues, log, view = _queues(plan, session.settings) if queues is None else queues, plan.log, plan.view
    # One team alone has no other to be compared with.
    shares = session.entitlement.deserved() if len(queues) > 1 else dict.fromkeys(plan.usage.tree.paths, 0)
    turns: list[Turn] = [(False, claim_of(plan, shares, team), team) for team in queues]
    heapq.heapify(turns)
    decided = len(log)
    while turns:
        borrows, claim, team = heapq.heappop(turns)
        if turns and (now := claim_of(plan, shares, team)) > claim:  # a team beside it got a place meanwhile
            heapq.heappush(turns, (borrows, now, team))
            continue
        queue, own = queues[team], _owed(plan, team)
        while (found := queue.peek(own, borrows)) is not None:
            workload, equivalence, need = found
            if workload.id in view and view[workload.id] is not workload:
                queue.advance()
                continue
            if (need > own) is not borrows:
                heapq.heappush(turns, (not borrows, claim_of(plan, shares, team), team))
                break
            queue.advance()
            yield workload, equivalence
            if len(log) != decided:
                if any(isinstance(decision, Evict | Shrink) for _, decision in log[decided:]):
                    turns = [*_with_less(plan, shares, turns, decided)]
                    heapq.heapify(turns)
                # Its next claimant may ask less and stay within what it owns, also after one that borrowed.
                heapq.heappush(turns, (False, claim_of(plan, shares, team), team))
                decided = len(log)
                break


def _with_less(plan: Plan, shares: Mapping[str, int], turns: list[Turn], since: int) -> Iterator[Turn]:
    """The turns with the claims of teams that hold less than before: these or others on their paths lost workers.

    A claim that grew is seen when it has its turn. What no longer borrows is found out then as well.
    """
    paths = plan.usage.tree.paths
    victims = (before.team for before, decision in plan.log[since:] if isinstance(decision, Evict | Shrink))
    fell = {node for team in victims for node in paths.get(team, ())[:-1]}
    for turn in turns:
        team = turn[2]
        yield (False, claim_of(plan, shares, team), team) if fell.intersection(paths.get(team, ())) else turn


def _owed(plan: Plan, team: str) -> int:
    """The most a team may still take in one pool without borrowing, in milli-GPU."""
    usage = plan.usage
    if team not in usage.tree.paths:
        return 0
    return max((usage.within_nominal(team, pool, FUTURE_IDLE) for pool in usage.tree.pools), default=0)


def claim_of(plan: Plan, shares: Mapping[str, int], team: str) -> Claim:
    """Held over what each deserves (`fairshare.deserved`) held, and less what it deserves, from the root team down.

    Less goes first: of teams that hold nothing the one that deserves most.
    """
    usage, tree = plan.usage, plan.usage.tree
    out: list[tuple[float, int, int]] = []
    for name in tree.paths.get(team, ())[-2::-1]:
        share = shares[name]
        total = sum(usage.total[FUTURE_IDLE][name, pool] for pool in tree.pools)
        out.append((total / share if share else float("inf"), total, -share))
    return tuple(out)


def within_team(workloads: list[Workload], at: float, settings: Settings) -> list[Workload]:
    """Sort the claimants of a team, or of several, first one first: by the values of `precedence`."""
    if not workloads:
        return []
    order = np.lexsort(precedence(order_keys(workloads), at, settings)[::-1])
    return [workloads[i] for i in order.tolist()]


def asks_no_more(one: Workload, other: Workload) -> bool:
    """Whether the first fits wherever the second does, on the same terms, so that the second must not overtake it."""
    a, b = one.ask, other.ask
    if bool(a.share and a.share.on_demand) != bool(b.share and b.share.on_demand):
        return False
    same = (one.team, one.kind, one.topology, one.preemptible, one.roles, a.models, a.share is None, a.labels) == (
        *(other.team, other.kind, other.topology, other.preemptible, other.roles, b.models, b.share is None, b.labels),
    )
    may_take_as_much = one.priority >= other.priority and one.at_risk >= other.at_risk
    return same and may_take_as_much and all(x <= y for x, y in zip(_size(one), _size(other), strict=True))


def _size(workload: Workload) -> tuple[int, ...]:
    ask = workload.ask
    workers = 1 if workload.kind is Kind.INFERENCE else workload.gang.min
    share = (ask.share.guarantee, ask.share.most_memory) if ask.share else (0, 0)
    return (ask.gpus, *share, ask.gpu_memory, ask.cpu_milli, ask.memory, workers)


class Queue(Protocol):
    """The claimants of one team, first one first."""

    def peek(self, own: int, borrows: bool) -> Next | None:
        """The next one that has a turn; None after the last. own, borrows: see `Columns.peek`."""

    def advance(self) -> None:
        """Go on behind the one that `peek` told."""


class Listed:
    """A queue in which every claimant has a turn."""

    def __init__(self, waiting: list[Workload], pending: PendingQueue) -> None:
        self._rest = waiting[::-1]
        self._pending = pending

    def peek(self, own: int, borrows: bool) -> Next | None:  # noqa: ARG002 - each has a turn
        """The next one; None after the last."""
        if not self._rest:
            return None
        return Next.of(self._pending, self._pending.slot[self._rest[-1].id])

    def advance(self) -> None:
        """Go on behind it."""
        self._rest.pop()


def _queues(plan: Plan, settings: Settings) -> dict[str, Listed]:
    scope, waiting = plan.snapshot.scope, [*plan.ledger.waiting.values()]
    if scope is not None:
        known = plan.snapshot.workloads
        teams = {*scope.teams, *(known[uid].team for uid in scope.asked if uid in known)}
        waiting = [workload for workload in waiting if workload.team in teams]
    by_team: dict[str, list[Workload]] = {}
    for workload in within_team(waiting, plan.snapshot.at, settings):
        by_team.setdefault(workload.team, []).append(workload)
    return {team: Listed(queue, plan.ledger.pending) for team, queue in by_team.items()}
