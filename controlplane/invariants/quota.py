"""S3 quota: no team holds more than it may, borrowing and lending included.

Written from the rules (scheduler/model/team.py, and the head of scheduler/quota/tree.py), not from the scheduler's
code: a team owns its nominal quota or the sum of what its children own, whichever is more; of that it keeps back what
is over its lending limit, and no other team may count on it, used or idle.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from controlplane.invariants.footprint import Footprints, used
from controlplane.invariants.state import State, Violation
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import Snapshot
from scheduler.model.team import Quota

_STATES = ("bound or leaving", "bound or reserved")  # IDLE, FUTURE_IDLE


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """One team in one pool, in milli-GPU: what its subtree holds, holds or keeps back, may hold (None: any) and owns.

    The cluster as a whole is the team without a name.
    """

    team: str
    pool: str
    held: int
    taken: int
    most: int | None
    owned: int | None  # without borrowing; None without a quota row


def s3_quota(state: State) -> tuple[Violation, ...]:
    """Every team's subtree, and the cluster as a whole, stay within what they own and may borrow.

    `taken` counts what a team keeps back as taken even when it is idle, so that a sum within the limit means
    that no team borrowed what was not for lending. A quota that was lowered, or a node that is gone, may leave a
    team over its limit (OverQuota): then it must not grow, which the state before tells.
    """
    found = []
    for what, now in zip(_STATES, quota_uses(state.snapshot, state.footprints), strict=True):
        for one in now:
            if one.most is None or one.taken <= one.most or one.taken <= _before(state, one):
                continue
            holder = f"Team {one.team}" if one.team else "The cluster"
            kept = f" (and {one.taken - one.held} are kept from lending)" if one.taken > one.held else ""
            message = f"{holder} has {one.held} milli-GPU {what} in {one.pool}{kept}; at most {one.most} is allowed."
            found.append(Violation("S3", f"{one.team or 'cluster'}/{one.pool}", message))
    return tuple(found)


def _before(state: State, now: QuotaUse) -> int:
    """What the team had taken in the state before, promised or held, by today's quotas: it may keep that while over."""
    if state.before is None:
        return 0
    then = replace(state.snapshot, workloads=state.before.workloads)
    old = [use for moment in quota_uses(then, Footprints()) for use in moment]
    return max((s.taken for s in old if (s.team, s.pool) == (now.team, now.pool)), default=0)


def quota_uses(snapshot: Snapshot, footprints: Footprints) -> tuple[list[QuotaUse], list[QuotaUse]]:
    """How every team and the cluster stand in every pool, now and later; children before their parents."""
    holds = used(footprints.of_workloads(snapshot.inventory, snapshot.workloads))
    capacity = Counter[str]()
    for node in snapshot.inventory.nodes:
        capacity[node.pool] += node.gpus * WHOLE
    parents = {team.name: team.parent for team in snapshot.teams}
    order = sorted(parents, key=lambda name: (-_depth(name, parents), name))
    out: tuple[list[QuotaUse], list[QuotaUse]] = ([], [])
    for pool in sorted(capacity.keys() | {quota.pool for quota in snapshot.quotas}):
        quotas = {q.team: q for q in snapshot.quotas if q.pool == pool}
        for moment, hold in zip(out, holds, strict=True):
            moment += _stand(pool, order, parents, quotas, hold, capacity[pool])
    return out


def _depth(name: str, parents: Mapping[str, str | None]) -> int:
    above = parents.get(name)
    return 0 if above is None else 1 + _depth(above, parents)


def _stand(
    pool: str,
    order: list[str],
    parents: Mapping[str, str | None],
    quotas: Mapping[str, Quota],
    hold: Mapping[tuple[str, str], int],
    capacity: int,
) -> Iterator[QuotaUse]:
    """One pool at one moment. Sums over children are collected at their parent; the roots' parent is the cluster."""
    owned, held, taken = Counter[str | None](), Counter[str | None](), Counter[str | None]()
    for name in order:
        quota = quotas.get(name)
        own = max(quota.nominal if quota else 0, owned[name])
        mine = hold.get((name, pool), 0)
        most = own + quota.borrowing if quota and quota.borrowing is not None else None
        yield QuotaUse(name, pool, held[name] + mine, taken[name] + mine, most, own if quota else None)
        kept = max(0, own - quota.lending) if quota and quota.lending is not None else 0
        owned[parents[name]] += own
        held[parents[name]] += held[name] + mine
        taken[parents[name]] += max(taken[name] + mine, kept)
    # Quotas may promise more than there is: then what is kept back cannot all be kept, and only holds count.
    is_promised_twice = owned[None] > capacity
    yield QuotaUse("", pool, held[None], held[None] if is_promised_twice else taken[None], capacity, capacity)
