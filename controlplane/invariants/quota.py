"""S3 quota: no team holds more than it may, borrowing and lending included.

Written from the rules (scheduler/team.py, and the head of scheduler/quota.py), not from the scheduler's code:
a team owns its nominal quota or the sum of what its children own, whichever is more; of that it keeps back what
is over its lending limit, and nobody else may count on it, used or idle.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from controlplane.invariants.footprint import Footprints, used
from controlplane.invariants.state import State, Violation
from gpushare.gpu import WHOLE
from scheduler.snapshot import LATER, NOW, Snapshot
from scheduler.team import Quota

_CLUSTER = None  # parent of the root teams
_MOMENTS = ((NOW, "bound or leaving"), (LATER, "bound or reserved"))


@dataclass(frozen=True, slots=True)
class Standing:
    """One team in one pool, in milli-GPU: what its subtree holds, holds or keeps back, and may hold (None: any)."""

    team: str
    pool: str
    held: int
    taken: int
    most: int | None


def s3_quota(state: State) -> tuple[Violation, ...]:
    """Every team's subtree, and the cluster as a whole, stay within what they own and may borrow.

    `taken` counts what a team keeps back as taken even when it is idle, so that a sum within the limit means
    that nobody borrowed what was not for lending. A quota that was lowered, or a node that is gone, may leave a
    team over its limit (OverQuota): then it must not grow, which the state before tells.
    """
    found = []
    for when, what in _MOMENTS:
        for now in standings(state.snapshot, when, state.footprints):
            if now.most is None or now.taken <= now.most:
                continue
            if now.taken > max(now.most, _before(state, now)):
                who = f"Team {now.team}" if now.team else "The cluster"
                kept = f" (and {now.taken - now.held} are kept back)" if now.taken > now.held else ""
                message = f"{who} holds {now.held} milli-GPU {what} in {now.pool}{kept}, the most is {now.most}."
                found.append(Violation("S3", f"{now.team or 'cluster'}/{now.pool}", message))
    return tuple(found)


def _before(state: State, now: Standing) -> int:
    """What the team had taken in the state before, promised or held, by today's quotas: it may keep that while over."""
    if state.before is None:
        return 0
    then = replace(state.snapshot, workloads=state.before.workloads)
    old = [s for when, _ in _MOMENTS for s in standings(then, when, Footprints())]
    return max((s.taken for s in old if (s.team, s.pool) == (now.team, now.pool)), default=0)


def standings(snapshot: Snapshot, when: int, footprints: Footprints) -> Iterator[Standing]:
    """How every team and the cluster stand in every pool, at one of the two moments."""
    workloads = tuple(snapshot.workloads.values())
    holds = used(workloads, footprints.of_workloads(snapshot.inventory, workloads), when)
    capacity = Counter[str]()
    for node in snapshot.inventory.nodes:
        capacity[node.pool] += node.gpus * WHOLE
    children: dict[str | None, list[str]] = {}
    for team in snapshot.teams:
        children.setdefault(team.parent, []).append(team.name)
    for pool in sorted(capacity.keys() | {quota.pool for quota in snapshot.quotas}):
        quotas = {q.team: q for q in snapshot.quotas if q.pool == pool}
        roots = [_subtree(name, pool, quotas, children, holds) for name in children.get(_CLUSTER, ())]
        yield from (standing for root in roots for standing in root.standings)
        held, taken = sum(r.standings[-1].held for r in roots), sum(r.taken for r in roots)
        # Quotas may promise more than there is: then what is kept back cannot all be kept, and only holds count.
        is_promised_twice = sum(r.owned for r in roots) > capacity[pool]
        yield Standing("", pool, held, held if is_promised_twice else taken, capacity[pool])


@dataclass(frozen=True, slots=True)
class _Subtree:
    """What a team owns and keeps back, what counts as taken of it, and its subtree's standings, its own last."""

    owned: int
    kept: int
    taken: int
    standings: tuple[Standing, ...]


def _subtree(
    name: str,
    pool: str,
    quotas: Mapping[str, Quota],
    children: Mapping[str | None, list[str]],
    holds: Mapping[tuple[str, str], int],
) -> _Subtree:
    parts = [_subtree(child, pool, quotas, children, holds) for child in children.get(name, ())]
    quota = quotas.get(name)
    owned = max(quota.nominal if quota else 0, sum(part.owned for part in parts))
    own = holds.get((name, pool), 0)
    held = own + sum(part.standings[-1].held for part in parts)
    inside = own + sum(part.taken for part in parts)
    most = owned + quota.borrowing if quota and quota.borrowing is not None else None
    kept = max(0, owned - quota.lending) if quota and quota.lending is not None else 0
    below = tuple(standing for part in parts for standing in part.standings)
    return _Subtree(owned, kept, max(inside, kept), (*below, Standing(name, pool, held, inside, most)))
