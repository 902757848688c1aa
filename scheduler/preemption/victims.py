"""What has to leave so that a claimant fits: the cheapest workloads that may be asked, and none too many.

Tried on the plan itself between a mark and a rollback; a set is taken only if the claimant then fits whole,
and only after every victim was found to be needed (docs/promises.md, S8 and S9).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from scheduler.fit.capacity import allowed_nodes
from scheduler.fit.claim import Places, claim, fits, quota_room
from scheduler.fit.gang import Goal, find_places, has_places
from scheduler.model.decision import EvictReason
from scheduler.model.snapshot import FUTURE_IDLE, Bools, Flavor, Ints, Inventory
from scheduler.model.workload import Level, Workload, least
from scheduler.preemption.borrowed import take_back
from scheduler.preemption.elastic import Lent
from scheduler.preemption.evictable import Evictable, recent_preemptors
from scheduler.preemption.scratch import Scratch
from scheduler.state.free import Free
from scheduler.state.plan import Plan
from scheduler.state.session import Session
from scheduler.state.tenants import has_share


@dataclass(frozen=True)
class Conditions:
    """On which conditions a claimant may make others leave."""

    reason: EvictReason
    is_owed: bool  # only for what its team owns
    may_take: Callable[[Workload], bool]  # asked again before each eviction, of the workload as it would be
    message: Callable[[Workload], str]
    may_shrink: Callable[[Workload], bool] = lambda gang: False  # the same before each worker of an elastic gang
    may_ask: Callable[[str], bool] = lambda team: False  # whether any gang of a team may shrink: a quick no to most
    may_evict: bool = True
    is_for_quota: bool = True  # whether what leaves frees quota for the claimant, wherever it runs
    may_all: Callable[[list[Workload]], bool] = lambda victims: True  # whether they may leave together
    settle: Callable[[list[Workload]], bool] = lambda victims: True  # whether all is well with these victims gone


@dataclass
class Search:
    """One claimant's search for victims."""

    session: Session
    claimant: Workload
    found: Ints  # candidates, the cheapest first
    conditions: Conditions
    max_tries: int  # sets of victims that it may look at
    tried: int = 0  # sets of victims looked at

    @property
    def plan(self) -> Plan:
        """The plan on which it tries."""
        return self.session.plan

    @property
    def evictable(self) -> Evictable:
        """All that may be made to leave."""
        return self.session.evictable

    def fits(self) -> bool:
        """Whether the claimant fits once all that leaves has left."""
        return fits(self.session, self.claimant, FUTURE_IDLE, self.conditions.is_owed)


def search(
    session: Session, claimant: Workload, numbers: Ints, conditions: Conditions, max_tries: int | None = None
) -> Search:
    """A search among these candidates, less those that the plan or the past forbids."""
    # No ping-pong: what made the claimant leave is not made to leave for it (S10).
    spared = set(recent_preemptors(claimant, session.snapshot.at, session.settings))
    found = session.evictable.present(session.plan, np.sort(numbers), spared) if conditions.may_evict else numbers[:0]
    return Search(
        session, claimant, found, conditions, session.settings.max_victims if max_tries is None else max_tries
    )


def make_room(task: Search) -> bool:
    """Make a least set of the candidates give room and place the claimant there; whether it could.

    Elastic gangs shrink first, and only what room they cannot give makes others leave.
    """
    plan, mark = task.plan, task.plan.mark()
    lent = _lend(task)
    if lent is not None and lent.could_fit() and lent.give(task.conditions.may_shrink):
        lent.prune()
        return _decide(task, mark, lent, [])
    if lent is not None and task.found.size:
        lent.give_all(task.conditions.may_shrink)
    if task.found.size and _evict(task, mark, lent):
        return True
    plan.rollback(mark)
    return False


def _lend(task: Search) -> Lent | None:
    """The elastic gangs that this claimant may ask, if any: all that have more workers than their count."""
    plan, evictable, conditions = task.plan, task.evictable, task.conditions
    elastic, chosen = evictable.elastic, set(evictable.lenders)
    for team, numbers in evictable.elastic_of_team.items():
        if not team or conditions.may_ask(team):
            chosen.update(n for n in numbers if n not in chosen and conditions.may_shrink(elastic[n]))
    gangs = [gang for gang in map(elastic.__getitem__, sorted(chosen)) if plan.workload(gang.id) is gang]
    return Lent(task.session, task.claimant, gangs, task.conditions.is_owed) if gangs else None


def _evict(task: Search, start: int, lent: Lent | None) -> bool:
    plan, conditions = task.plan, task.conditions
    room = [flavor for flavor in task.session.flavors.of(task.claimant) if _could_hold(task, flavor)]
    task.evictable.tried += bool(room)
    free = task.evictable.free_without(plan, task.found) if room else None
    if free is None or not _could_fit(task, free, room):
        return False
    mark = plan.mark()
    scratch = _scratch(task) if lent is None else None
    for scenario in _scenarios(task, free):
        if task.tried >= task.max_tries:
            break
        task.tried += 1
        if scratch is not None:
            victims = scratch.needed(scenario, conditions.may_take)
        else:
            victims = _needed(task, _evict_until_fits(task, scenario))
        if victims and not conditions.may_all(victims):
            victims = []
        if victims and lent is not None:
            lent.prune(but=[v.id for v in victims])
        if victims and _decide(task, start, lent, victims):
            return True
        mark = _tried_in_vain(task, start, lent) if victims else mark
        plan.rollback(mark)
    return False


def _scratch(task: Search) -> Scratch | None:
    """What to try sets of victims on; None: the plan has to be asked, as it knows beside what a share may lie."""
    session, claimant = task.session, task.claimant
    if not session.shortcuts.direct or (has_share(claimant) and session.plan.tenants is not None):
        return None
    return Scratch(session, claimant, task.conditions.is_owed)


def _tried_in_vain(task: Search, start: int, lent: Lent | None) -> int:
    """Undo a decision, which began before what was lent, and lend the same again; the mark to go on from."""
    task.plan.rollback(start)
    if lent is not None:
        lent.give_again(task.conditions.may_shrink)
    return task.plan.mark()


def _decide(task: Search, start: int, lent: Lent | None, victims: list[Workload]) -> bool:
    """Decide, on the plan as it was at the start, what gives room; and place the claimant there."""
    plan, claimant, conditions = task.plan, task.claimant, task.conditions
    plan.rollback(start)
    after = [v.id for v in victims]
    if lent is not None:
        after += lent.decide(but=after)
    for victim in victims:
        plan.evict(victim, conditions.reason, claimant.id, conditions.message(victim))
    take_back(task.session)
    if not claim(task.session, claimant, FUTURE_IDLE, after, conditions.is_owed):
        raise RuntimeError(f"{claimant.id} fitted and does not fit any more")
    return conditions.settle(victims)


def _could_fit(task: Search, free: Free, room: Sequence[Flavor | None]) -> bool:
    """Whether the claimant would have places if all of them left: cheap, and most claimants end here."""
    inventory, claimant = task.plan.inventory, task.claimant
    if task.session.shortcuts.direct:
        return any(has_places(inventory, claimant, _least(claimant), free, flavor) for flavor in room)
    return any(find_places(inventory, claimant, _least(claimant), free, flavor) is not None for flavor in room)


def _could_hold(task: Search, flavor: Flavor | None) -> bool:
    """Whether quota would allow the least of the claimant in the flavor's pool if all of them left.

    Those that only move take their quota with them.
    """
    if flavor is None:
        return True
    usage, pool = task.plan.usage, flavor.pool
    if quota_room(task.session, task.claimant, flavor, FUTURE_IDLE, task.conditions.is_owed) >= least(task.claimant):
        return True  # what leaves only frees more
    leaving = task.evictable.held_by_team(task.found, pool) if task.conditions.is_for_quota else []
    with usage.assuming(pool, FUTURE_IDLE, [(team, -milli) for team, milli in leaving]):
        return quota_room(task.session, task.claimant, flavor, FUTURE_IDLE, task.conditions.is_owed) >= least(
            task.claimant
        )


def _scenarios(task: Search, free: Free) -> Iterator[Iterable[Workload]]:
    """Lists of workloads to evict in order, the most promising list first."""
    plan, claimant, evictable = task.plan, task.claimant, task.evictable
    is_first = True
    for flavor in task.session.flavors.of(claimant):
        allowed = allowed_nodes(plan.inventory, claimant.ask, flavor)
        prices = evictable.prices(plan, claimant, task.found, free, allowed)
        for role in claimant.roles:  # nodes that only role members may use
            may = allowed_nodes(plan.inventory, role.ask, flavor if role.ask.milli else None)
            theirs = evictable.prices(plan, replace(claimant, ask=role.ask), task.found, free, may)
            prices = np.where(np.isfinite(prices), prices, theirs)
        order = np.argsort(prices, kind="stable")
        order = order[np.isfinite(prices[order])]
        for nodes in _node_sets(task, free, flavor, order):
            is_there = evictable.are_there(task.found, nodes)
            there = [evictable.workload(number) for number in task.found[is_there].tolist()]
            if there:
                yield there
            if (
                is_first and task.conditions.is_for_quota
            ):  # it may be quota, not room, that is missing: then any victim helps
                is_first = False
                others = task.found[~is_there].tolist()
                yield chain(there, map(evictable.workload, others))


def _node_sets(task: Search, free: Free, flavor: Flavor | None, order: Ints) -> Iterator[Bools]:
    """Sets of nodes on which the claimant could fit, the cheapest first; shape [N]. order: nodes by price."""
    inventory, claimant = task.plan.inventory, task.claimant
    goal = _least(claimant)
    if task.session.shortcuts.direct and _goes_on_each(claimant, goal):
        for node in order:
            yield _mask(inventory, node)
        return

    def places_on(nodes: Ints) -> Places | None:
        return find_places(inventory, claimant, goal, free, flavor, _mask(inventory, nodes))

    while order.size and places_on(order):
        low, high = 1, len(order)
        while low < high:  # the fewest of the cheapest nodes that do
            middle = (low + high) // 2
            if places_on(order[:middle]):
                high = middle
            else:
                low = middle + 1
        yield _mask(inventory, [inventory.index[place.node] for place in places_on(order[:low]) or ()])
        # Without its dearest node, or, for a single worker, without those tried: the next set.
        order = np.delete(order, low - 1)


def _goes_on_each(claimant: Workload, goal: Goal) -> bool:
    """Whether it could be on any node that takes one worker, as all have that have a price: each is a set by itself."""
    is_linked = claimant.topology.require == Level.NVLINK and claimant.ask.gpus > 1
    return goal.least == 1 and not claimant.roles and not is_linked


def _mask(inventory: Inventory, nodes: Ints | int | list[int]) -> Bools:
    mask = np.zeros(len(inventory.nodes), dtype=np.bool_)
    mask[nodes] = True
    return mask


def _evict_until_fits(task: Search, scenario: Iterable[Workload]) -> list[tuple[Workload, Workload]]:
    """Evict on the plan until the claimant fits; what left and how each was before, or nothing if it never does."""
    plan, claimant, conditions = task.plan, task.claimant, task.conditions
    victims: list[tuple[Workload, Workload]] = []
    next_look = 1
    for workload in scenario:
        if not conditions.may_take(plan.workload(workload.id)):
            continue
        victims.append((workload, plan.workload(workload.id)))
        plan.evict(workload, conditions.reason, claimant.id)
        if len(victims) >= next_look:
            if task.fits():
                return victims
            next_look = max(len(victims) + 1, len(victims) * 5 // 4)  # looking costs more than a spare victim
    return victims if victims and task.fits() else []


def _needed(task: Search, victims: list[tuple[Workload, Workload]]) -> list[Workload]:
    """Leave out, the dearest first, each victim without which the claimant fits as well."""
    plan, claimant, conditions = task.plan, task.claimant, task.conditions
    needed: list[Workload] = []
    for victim, before in reversed(victims):
        plan.put(before)
        if not task.fits():
            plan.evict(victim, conditions.reason, claimant.id)
            needed.append(victim)
    return needed[::-1]


def _least(claimant: Workload) -> Goal:
    return Goal(least(claimant), least(claimant))
