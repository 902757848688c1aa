"""Who has to leave so that a claimant fits: the cheapest workloads that may be asked, and none too many.

Tried on the plan itself between a mark and a rollback; a set is taken only if the claimant then fits whole,
and only after every victim was found to be needed (reliability.md S8, S9).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpushare.gpu import WHOLE
from scheduler.claim import claim, find
from scheduler.decision import EvictReason
from scheduler.fit import allowed_nodes, flavors, least, per_node
from scheduler.gang import Goal, find_places
from scheduler.plan import Free, Plan, is_idle
from scheduler.settings import Settings
from scheduler.snapshot import COMPUTE, LATER, MEMORY, Flavor
from scheduler.workload import ACTIVE, Workload


@dataclass(frozen=True)
class Terms:
    """On which terms a claimant may make others leave."""

    reason: EvictReason
    is_owed: bool  # only for what its team owns
    may_take: Callable[[Workload], bool]  # asked again after each eviction
    message: Callable[[Workload], str]


def is_protected(workload: Workload, at: float, settings: Settings) -> bool:
    """Whether nobody may make it leave now: not preemptible, just started, or preempted too often."""
    if not workload.preemptible or workload.phase not in ACTIVE or workload.after or not workload.placement:
        return True
    if workload.started_at is None or at - workload.started_at < settings.min_runtime_seconds:
        return True
    return len(_recent(workload, at, settings)) >= settings.max_preemptions


def cost(workload: Workload, at: float, settings: Settings) -> float:
    """Milli-GPU seconds lost if it has to leave: work since the last checkpoint, and the restart."""
    since = max(t for t in (workload.started_at, workload.checkpointed_at, 0.0) if t is not None)
    return (max(0.0, at - since) + settings.restart_seconds) * max(1, workload.held_milli)


def candidates(plan: Plan, claimant: Workload, teams: Iterable[str], settings: Settings) -> list[Workload]:
    """Running workloads of these teams that the claimant may ask to leave, the cheapest first."""
    at = plan.snapshot.at
    # No ping-pong: who made the claimant leave is not made to leave for it (reliability.md S10).
    spared = set(_recent(claimant, at, settings))
    found = [
        workload
        for team in teams
        for workload in plan.running(team)
        if workload.id not in spared
        and not is_protected(workload, at, settings)
        and plan.workload(workload.id) is workload
    ]
    return sorted(found, key=lambda w: (cost(w, at, settings), w.priority, -w.seq, w.id))


def make_room(plan: Plan, claimant: Workload, found: list[Workload], terms: Terms, settings: Settings) -> bool:
    """Evict a least set of `found` (cheapest first) and place the claimant there; whether it could."""
    if not found or not _could_fit(plan, claimant, found, terms):
        return False
    mark = plan.mark()
    for tries, scenario in enumerate(_scenarios(plan, claimant, found, settings)):
        if tries >= settings.max_victims:
            break
        victims = _evict_until_fits(plan, claimant, scenario, terms)
        if victims:
            victims = _needed(plan, claimant, victims, terms)
        plan.rollback(mark)
        if victims:
            for victim in victims:
                plan.evict(victim, terms.reason, claimant.id, terms.message(victim))
            return claim(plan, claimant, LATER, (v.id for v in victims), terms.is_owed)
    return False


def _recent(workload: Workload, at: float, settings: Settings) -> list[str]:
    """Who made it leave within the window."""
    since = at - settings.preemption_window_seconds
    pairs = zip(workload.preempted_at, workload.preempted_by, strict=False)
    return [by for when, by in pairs if when > since]


def _could_fit(plan: Plan, claimant: Workload, found: list[Workload], terms: Terms) -> bool:
    """Whether the claimant would fit if all of them left: cheap, and most claimants end here."""
    need = claimant.ask.milli * least(claimant)
    usage, team = plan.usage, claimant.team
    free = without(plan, found)
    for flavor in flavors(plan, claimant):
        if flavor is not None:
            given = sum(w.held_milli for w in found)
            if usage.available(team, flavor.pool, LATER) + given < need:
                continue
            if terms.is_owed and usage.within_nominal(team, flavor.pool, LATER) < need:
                continue
        if find_places(plan.inventory, claimant, _least(claimant), free, flavor) is not None:
            return True
    return False


def without(plan: Plan, gone: list[Workload]) -> Free:
    """What would be free, later, if these had left as well."""
    inventory = plan.inventory
    gpu, host = plan.free[LATER].gpu.copy(), plan.free[LATER].node.copy()
    offset, index = inventory.offset.tolist(), inventory.index
    for workload in gone:
        ask = workload.ask
        milli, memory = (ask.share.guarantee, ask.share.memory) if ask.share else (WHOLE, 0)
        for worker in workload.placement:
            node = index.get(worker.node)
            if node is None or worker.leaving or worker.reserved:
                continue
            host[COMPUTE, node] += ask.cpu_milli
            host[MEMORY, node] += ask.memory
            for device in worker.gpus:
                gpu[COMPUTE, offset[node] + device] += milli
                gpu[MEMORY, offset[node] + device] += memory
    gpu = np.where(inventory.gpu_capacity > 0, gpu, 0)
    idle = np.bincount(inventory.node_of, is_idle(gpu), len(inventory.nodes)).astype(np.int64)
    return Free(gpu, host, idle)


def _scenarios(plan: Plan, claimant: Workload, found: list[Workload], settings: Settings) -> Iterator[list[Workload]]:
    """Lists of workloads to evict in order, the most promising list first."""
    free = without(plan, found)
    at, first = plan.snapshot.at, True
    for flavor in flavors(plan, claimant):
        prices = _prices(
            plan,
            claimant,
            [(w, cost(w, at, settings)) for w in found],
            free,
            allowed_nodes(plan.inventory, claimant.ask, flavor),
        )
        order = np.argsort(prices, kind="stable")
        order = order[np.isfinite(prices[order])]
        for names in _node_sets(plan, claimant, free, flavor, order):
            there = [w for w in found if any(a.node in names for a in w.placement)]
            if there:
                yield there
            if first:  # it may be quota, not room, that is missing: then anybody's helps
                chosen = {w.id for w in there}
                yield there + [w for w in found if w.id not in chosen]
                first = False


def _node_sets(
    plan: Plan, claimant: Workload, free: Free, flavor: Flavor | None, order: NDArray[np.int64]
) -> Iterator[set[str]]:
    """Sets of nodes on which the claimant could fit, the cheapest first."""
    inventory, goal = plan.inventory, _least(claimant)
    start = 1
    while start <= len(order):
        low, high = start, len(order)
        mask = np.zeros(len(inventory.nodes), dtype=np.bool_)
        while low < high:  # the fewest of the cheapest nodes that do
            middle = (low + high) // 2
            mask[:] = False
            mask[order[:middle]] = True
            if find_places(inventory, claimant, goal, free, flavor, mask) is not None:
                high = middle
            else:
                low = middle + 1
        mask[:] = False
        mask[order[:low]] = True
        places = find_places(inventory, claimant, goal, free, flavor, mask)
        if places is None:
            return
        yield {place.node for place in places}
        if goal.least > 1:
            return
        # One worker: the next dearer node alone.
        order, start = order[low:], 1


def _prices(
    plan: Plan, claimant: Workload, found: list[tuple[Workload, float]], free: Free, allowed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """About what it costs to make room for one worker on each node; inf where it cannot be. Shape [N]."""
    inventory, ask = plan.inventory, claimant.ask
    has_room = per_node(inventory, ask, plan.free[LATER], allowed) > 0
    could = per_node(inventory, ask, free, allowed) > 0
    missing = np.maximum(1, ask.milli - (plan.free[LATER].idle * WHOLE if ask.gpus else 0))
    missing = np.where(has_room | ~could, 0, missing).tolist()
    prices = np.where(could, 0.0, np.inf)
    for workload, price in found:
        per_worker = max(1, workload.ask.milli)
        for name, workers in _workers_by_node(workload).items():
            node = inventory.index.get(name)
            if node is not None and missing[node] > 0:
                prices[node] += price
                missing[node] -= per_worker * workers
    return prices


def _workers_by_node(workload: Workload) -> dict[str, int]:
    out: dict[str, int] = {}
    for worker in workload.placement:
        out[worker.node] = out.get(worker.node, 0) + 1
    return out


def _evict_until_fits(plan: Plan, claimant: Workload, scenario: list[Workload], terms: Terms) -> list[Workload]:
    """Evict on the plan until the claimant fits; who left, or nobody if it never does."""
    victims: list[Workload] = []
    next_look = 1
    for workload in scenario:
        if not terms.may_take(workload):
            continue
        plan.evict(workload, terms.reason, claimant.id)
        victims.append(workload)
        if len(victims) >= next_look:
            if find(plan, claimant, LATER, terms.is_owed) is not None:
                return victims
            next_look = max(len(victims) + 1, len(victims) * 5 // 4)  # looking costs more than a spare victim
    if victims and find(plan, claimant, LATER, terms.is_owed) is not None:
        return victims
    return []


def _needed(plan: Plan, claimant: Workload, victims: list[Workload], terms: Terms) -> list[Workload]:
    """Leave out, the dearest first, each victim without whom the claimant fits as well."""
    needed: list[Workload] = []
    for victim in reversed(victims):
        plan.restore(victim.id)
        if find(plan, claimant, LATER, terms.is_owed) is None:
            plan.evict(victim, terms.reason, claimant.id)
            needed.append(victim)
    return needed[::-1]


def _least(claimant: Workload) -> Goal:
    return Goal(least(claimant), least(claimant))
