"""Whose turn it is: teams by how little they hold of what they are entitled to, then workloads within a team."""

import heapq
from collections.abc import Iterator, Mapping

import numpy as np

from scheduler.fairshare import deserved
from scheduler.fit import least
from scheduler.plan import Plan
from scheduler.precedence import precedence
from scheduler.settings import Settings
from scheduler.snapshot import LATER
from scheduler.workload import Kind, Workload

Claim = tuple[tuple[float, int, int], ...]
Turn = tuple[bool, Claim, str]  # whether its next claimant borrows, how much it holds, the team


def in_order(plan: Plan, settings: Settings) -> Iterator[tuple[Workload, str]]:
    """All claimants and their shapes, one after the other; what the plan decides between two moves their teams back.

    Teams whose next claimant stays within what they own come before those that would borrow (Kueue's rule), then
    those furthest below their entitlement. Within a team the fixed comparison of `scheduler/precedence.py` holds:
    class, priority with ageing, attained service, failures, submission. Who was placed or made to leave before its
    turn is passed over.
    """
    queues, shapes, log, view = _queues(plan, settings), plan.snapshot.shapes, plan.log, plan.view
    # One team alone has nobody to be compared with.
    shares = deserved(plan, settings) if len(queues) > 1 else dict.fromkeys(plan.usage.tree.paths, 0)
    turns: list[Turn] = [(False, claim_of(plan, shares, team), team) for team in queues]
    heapq.heapify(turns)
    decided = len(log)
    while turns:
        borrows, _, team = heapq.heappop(turns)
        queue, own = queues[team], _owed(plan, team)
        while queue:
            workload = queue[-1]
            known = shapes.get(workload.id)
            if known is None or known[0] is not workload:
                known = shapes[workload.id] = (workload, *shape_of(workload))
            if (known[2] > own) is not borrows:
                heapq.heappush(turns, (not borrows, claim_of(plan, shares, team), team))
                break
            queue.pop()
            if workload.id in view and view[workload.id] is not workload:
                continue
            yield workload, known[1]
            if len(log) != decided:
                decided = len(log)
                heapq.heappush(turns, (borrows, claim_of(plan, shares, team), team))
                break


def _owed(plan: Plan, team: str) -> int:
    """The most a team may still take in one pool without borrowing, in milli-GPU."""
    usage = plan.usage
    if team not in usage.tree.paths:
        return 0
    return max((usage.within_nominal(team, pool, LATER) for pool in usage.tree.pools), default=0)


def claim_of(plan: Plan, shares: Mapping[str, int], team: str) -> Claim:
    """Held over what each deserves (`fairshare.deserved`) held, and less what it deserves, from the root team down.

    Less goes first: of teams that hold nothing the one that deserves most.
    """
    usage, tree = plan.usage, plan.usage.tree
    out: list[tuple[float, int, int]] = []
    for name in tree.paths.get(team, ())[-2::-1]:
        share = shares[name]
        total = sum(usage.total[LATER][name, pool] for pool in tree.pools)
        out.append((total / share if share else float("inf"), total, -share))
    return tuple(out)


def within_team(workloads: list[Workload], at: float, settings: Settings) -> list[Workload]:
    """Sort the claimants of a team, or of several, first one first: by the values of `precedence`."""
    if not workloads:
        return []
    order = np.lexsort(precedence(workloads, at, settings)[::-1])
    return [workloads[i] for i in order.tolist()]


def shape_of(workload: Workload) -> tuple[str, int]:
    """A text that is equal for workloads of one team that ask the same in every way placement and quota look at.

    With it the milli-GPU it needs at least.
    """
    ask, gang, near = workload.ask, workload.gang, workload.topology
    is_service = workload.kind is Kind.INFERENCE
    size = (workload.missing,) if is_service else (gang.min, gang.count)
    shape = (workload.team, is_service, size, ask, near.require, near.prefer, workload.preemptible)
    text = repr((*shape, workload.roles)) if workload.roles else repr(shape)
    return text, workload.need_milli(least(workload))


def asks_no_more(one: Workload, other: Workload) -> bool:
    """Whether the first fits wherever the second does, on the same terms, so that the second must not overtake it."""
    a, b = one.ask, other.ask
    same = (one.team, one.kind, one.topology, one.preemptible, one.roles, a.models, a.share is None) == (
        *(other.team, other.kind, other.topology, other.preemptible, other.roles, b.models, b.share is None),
    )
    return (
        same and one.priority >= other.priority and all(x <= y for x, y in zip(_size(one), _size(other), strict=True))
    )


def _size(workload: Workload) -> tuple[int, ...]:
    ask = workload.ask
    workers = 1 if workload.kind is Kind.INFERENCE else workload.gang.min
    share = (ask.share.guarantee, ask.share.memory) if ask.share else (0, 0)
    return (ask.gpus, *share, ask.gpu_memory, ask.cpu_milli, ask.memory, workers)


def _queues(plan: Plan, settings: Settings) -> dict[str, list[Workload]]:
    """Claimants by team, last one first, so that `pop` takes the next."""
    queues: dict[str, list[Workload]] = {}
    scope, waiting = plan.snapshot.scope, plan.waiting
    if scope is not None:
        known = plan.snapshot.workloads
        teams = {*scope.teams, *(known[uid].team for uid in scope.asked if uid in known)}
        waiting = [workload for workload in waiting if workload.team in teams]
    for workload in reversed(within_team(waiting, plan.snapshot.at, settings)):
        queue = queues.get(workload.team)
        if queue is None:
            queues[workload.team] = [workload]
        else:
            queue.append(workload)
    return queues
