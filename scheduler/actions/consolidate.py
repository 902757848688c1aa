"""Consolidate: move small workloads to other places, so that a claimant gets in one piece what is free in several."""

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.fit.capacity import allowed_nodes, per_node
from scheduler.fit.claim import quota_room
from scheduler.model.decision import Evict, EvictReason
from scheduler.model.mention import mention
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, Ints
from scheduler.model.workload import Workload, least
from scheduler.preemption.moving import keep
from scheduler.preemption.victims import Conditions, make_room, search
from scheduler.state.free import is_idle
from scheduler.state.session import Session


def consolidate(session: Session, claimant: Workload) -> bool:
    """Place a claimant for which enough is free, but in pieces, by moving others to other places; whether it could.

    Only what loses little is moved: trainings and notebooks that save checkpoints, may be preempted, have run for the
    least time and did not have to leave too often. Each must have a place elsewhere that is free now, and together
    they hold no more than the claimant needs.
    """
    plan, settings, evictable = session.plan, session.settings, session.evictable
    need = claimant.need_milli(least(claimant))
    tries = min(settings.max_move_scenarios // 4, settings.max_move_scenarios - evictable.moves_tried)
    if tries <= 0 or not need or not _is_enough(session, claimant, need):
        return False
    moved = sum(isinstance(d, Evict) and d.reason is EvictReason.CONSOLIDATED for d in plan.decisions)
    most = settings.max_moves - moved
    if most <= 0:
        return False
    small = _few_enough(session, claimant, most)

    def message(victim: Workload) -> str:
        name = mention(claimant.id)
        return f"Moves to another place, which is kept for it, so that {name} gets its room in one piece."

    def settle(victims: list[Workload]) -> bool:
        return all([keep(session, plan.workload(victim.id)) for victim in sorted(victims, key=lambda w: w.seq)])

    def may_all(victims: list[Workload]) -> bool:
        return len(victims) <= most and sum(victim.held_milli for victim in victims) <= need

    conditions = Conditions(
        EvictReason.CONSOLIDATED,
        False,
        lambda victim: True,
        message,
        may_all=may_all,
        settle=settle,
        is_for_quota=False,
    )
    task = search(session, claimant, small, conditions, tries)
    has_room = bool(small.size) and make_room(task)
    evictable.moves_tried += task.tried
    return has_room


def _is_enough(session: Session, claimant: Workload, need: int) -> bool:
    """Whether one flavor has as much free, in pieces, as the claimant needs, and its quota is enough there."""
    plan = session.plan
    free, inventory, ask = plan.free[FUTURE_IDLE], plan.inventory, claimant.ask
    for flavor in session.flavors.of(claimant):
        if quota_room(session, claimant, flavor, FUTURE_IDLE) < least(claimant):
            continue
        allowed = allowed_nodes(inventory, ask, flavor)
        milli = np.maximum(free.gpu[COMPUTE], 0) if ask.share else np.where(is_idle(free.gpu), WHOLE, 0)
        if int(milli[allowed[inventory.node_of]].sum()) >= need:
            return True
    return False


def _few_enough(session: Session, claimant: Workload, most: int) -> Ints:
    """Candidates on nodes where a few of them make room for a worker; none where all of it would take too many.

    Only what is smaller than the piece that is missing: where one as large could go, the piece itself mostly could.
    """
    plan, evictable = session.plan, session.evictable
    need, inventory, ask = claimant.need_milli(least(claimant)), plan.inventory, claimant.ask
    piece = ask.milli if claimant.topology.require is None else need
    small = evictable.movable[evictable.milli[evictable.movable] < piece]
    if not small.size:
        return small
    free, ones = evictable.free_without(plan, small), np.ones(len(evictable.costs))
    fits = np.zeros(len(inventory.nodes), dtype=np.bool_)
    for flavor in session.flavors.of(claimant):
        allowed = allowed_nodes(inventory, ask, flavor)
        leave = evictable.prices(plan, claimant, small, free, allowed, ones)
        lacking = max(1, least(claimant) - int(per_node(inventory, ask, plan.free[FUTURE_IDLE], allowed).sum()))
        if np.sort(leave[leave > 0])[:lacking].sum() <= most:
            fits |= leave <= most
    return evictable.on_nodes(small, fits)
