"""Reallocate: let trainings go where they asked to run, on what no waiting workload could use.

The wish comes from the one that measures them (docs/reallocation.md): a shape, so many workers on each node, nodes to
stay off, and perhaps another number of parameter servers or another batch. It takes no more GPUs than before, of the
same model, displaces none, and goes beside planned starts. All that makes it leave is its own wish, so it counts as no
preemption; its places are kept as for any moved workload. An elastic gang only gives up its workers on the nodes that
it named, and grows elsewhere.
"""

from collections import Counter

from scheduler.fit.shaped import with_own
from scheduler.model.decision import Evict, EvictReason
from scheduler.model.mention import counted
from scheduler.model.snapshot import IDLE, Flavor
from scheduler.model.workload import Kind, Phase, Workload, most, owned, staying
from scheduler.preemption.growth import Growth
from scheduler.preemption.moving import as_asked, wished
from scheduler.state.ledger import is_movable
from scheduler.state.session import Session

GIVES = "Gives up {} on {}, where one is slow, and grows elsewhere."
TOO_MANY = "Gives up {}: it is to run with {} now."
MESSAGE = "Moves to other places, which are kept for it, as it is expected to run faster there."
ANEW = "Starts again with a batch of {} on places that are kept for it, as it is expected to learn faster so."


def reallocate(session: Session, growth: Growth) -> None:
    """Make those leave that asked to run elsewhere and have room there, once each claimant has had its turn."""
    plan, left = session.plan, session.settings.max_moves
    left -= sum(isinstance(d, Evict) and d.reason is EvictReason.CONSOLIDATED for d in plan.decisions)
    for gang in sorted(plan.ledger.wishing.values(), key=lambda w: w.seq):
        if left <= 0 or session.is_full:
            return
        if plan.workload(gang.id) is not gang or not may_leave(session, gang):
            continue
        if (ranks := spared(gang)) and growth.has_room_off(gang, len(ranks)):
            plan.shrink(gang, ranks, "", GIVES.format(counted(len(ranks), "worker"), ", ".join(gang.off)))
            left -= 1
            continue
        free = plan.open_to(gang, session.constraints.room_beside_all(IDLE), IDLE)
        own = with_own(plan.inventory, free, gang)
        places = wished(session, gang, own, _flavor(session, gang), ~growth.usable_by_others)
        if places is not None:
            plan.evict(gang, EvictReason.REALLOCATED, "", _message(gang))
            plan.keep(plan.workload(gang.id), places)
            left -= 1


def _message(gang: Workload) -> str:
    return MESSAGE if gang.batch_wanted is None else ANEW.format(gang.batch_wanted)


def trim(session: Session) -> None:
    """Have gangs that hold more workers than they can use give them up: their most was lowered while they ran."""
    plan = session.plan
    for gang in sorted(plan.ledger.lending.values(), key=lambda w: w.seq):
        if session.is_full:
            return
        over = len(owned(gang)) - most(gang)
        if over > 0 and plan.workload(gang.id) is gang and not any(a.leaving for a in gang.placement):
            plan.shrink(gang, _loosest(gang, over), "", TOO_MANY.format(counted(over, "worker"), most(gang)))


def _loosest(gang: Workload, count: int) -> list[int]:
    """So many ranks, those on the nodes with the fewest of its workers first; the lowest stays."""
    ranks = owned(gang)
    node_of = {a.rank: a.node for a in gang.placement}
    on = Counter(node_of[rank] for rank in ranks)
    first = node_of[ranks[0]]
    order = sorted(ranks[1:], key=lambda rank: (node_of[rank] == first, on[node_of[rank]], node_of[rank], -rank))
    return sorted(order[:count])


def spared(gang: Workload) -> list[int]:
    """The ranks that an elastic gang gives up so that it is off the nodes that it named; none where it has to go whole.

    It goes on with the rest and grows elsewhere: at least its minimum stays, and with it its lowest rank.
    """
    stay = staying(gang)
    there = {a.rank for a in gang.placement if a.node in gang.off}
    ranks = [rank for rank in stay if rank in there]
    is_elastic = gang.gang.min < most(gang) and len(stay) - len(ranks) >= max(1, gang.gang.min)
    has_role_member = any(rank < gang.role_members for rank in there)
    return ranks if ranks and is_elastic and stay[0] not in there and not has_role_member else []


def may_leave(session: Session, gang: Workload) -> bool:
    """Whether it runs undisturbed with as many workers as it asks places for, saves its work and may be stopped."""
    return is_settled(gang, session.plan.snapshot.at, session.settings.min_runtime_seconds) and (
        gang.team not in session.over_budget
    )


def is_settled(gang: Workload, at: float, min_runtime_seconds: float) -> bool:
    """The part of that which its row says."""
    is_whole = gang.kind is Kind.TRAINING and gang.ask.share is None and gang.ask.gpus > 0 and gang.preemptible
    if not is_whole or gang.phase is not Phase.RUNNING or gang.after or gang.finishing or not is_movable(gang):
        return False
    if any(a.leaving or a.reserved or a.lender for a in gang.placement):
        return False
    if gang.started_at is None or at - gang.started_at < min_runtime_seconds:
        return False
    return sum(gang.goes_to) == len(staying(gang)) <= gang.gang.count and not is_there(gang)


def is_there(gang: Workload) -> bool:
    """Whether it runs in the shape that it asks for, with such roles, on none of the nodes that it would leave.

    One that asks for another batch does not: it starts again for that, if only where it is.
    """
    if as_asked(gang).roles != gang.roles or gang.batch_wanted is not None:
        return False
    on = Counter(a.node for a in gang.placement if a.rank >= gang.role_members)
    return tuple(sorted(on.values(), reverse=True)) == gang.goes_to and not on.keys() & set(gang.off)


def _flavor(session: Session, gang: Workload) -> Flavor | None:
    """That of its nodes: its steps were measured there."""
    inventory = session.plan.inventory
    at = inventory.index.get(gang.placement[-1].node)
    return None if at is None else next((f for f in inventory.flavors if f.nodes[at]), None)
