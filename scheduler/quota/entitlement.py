"""Entitlement: what each team should hold of each pool now, given what all of them want and used lately.

Each team gets what it owns as far as it wants it. What is left - not owned, or not used by its owners and lent -
is divided between those that want more by weighted water-filling, where past borrowing shifts the weights: with W'
a team's part of the weights and U' its part of what is to be borrowed, its weight is max(W' + k (W' - U'), 0)
(KAI's time-based fair share). U' counts decayed use beyond nominal only: what a team owns it may use without being
worse off for it later, and what it left unused it may borrow for that. The same at each level of the tree of teams.
Source: max-min fairness with weights (Bertsekas & Gallagher, Data Networks, 6.5.2);
docs/algorithms.md#quota-and-entitlement.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Ints
from scheduler.model.workload import Phase, Workload, surplus
from scheduler.quota.tree import CLUSTER
from scheduler.state.ledger import Want, want_of
from scheduler.state.plan import Plan

Pool = dict[str, int]  # milli-GPU by team, of its whole subtree
FINE = 1 << 20  # steps into which corrected weights are cut, so that dividing is exact in integers


@dataclass(frozen=True, slots=True)
class Side:
    """One of those between whom a pool is divided, in milli-GPU. kept_from_lending: of `owned`; most: or None."""

    demand: int
    owned: int = 0
    kept_from_lending: int = 0
    most: int | None = None
    weight: int = 1
    use: int = 0  # decayed


def divide(total: int, sides: Sequence[Side], correction: float) -> list[int]:
    """Divide milli-GPU: what is owned first, the rest by corrected weight; none gets more than it wants and may hold.

    Gives out all of `total` that any of them wants and that its owners lend. Ties go to the lower index. Where more is
    owned and wanted than there is, it is divided in proportion to what is owned.
    """
    wants = [side.demand if side.most is None else min(side.demand, side.most) for side in sides]
    sure = [min(want, side.owned) for want, side in zip(wants, sides, strict=True)]
    if sum(sure) > total:
        return fill(total, sure, [side.owned for side in sides])
    kept = sum(max(0, side.kept_from_lending - want) for want, side in zip(wants, sides, strict=True))
    over = max(0, total - sum(sure) - kept)
    more = [want - own for want, own in zip(wants, sure, strict=True)]
    extra = fill(over, more, _corrected(sides, more, over, correction))
    return [own + further for own, further in zip(sure, extra, strict=True)]


def fill(total: int, caps: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Raise all in proportion to their weights until `total` is given out or each has its cap; exact in integers.

    Those of weight 0 share, evenly, what the others leave. The result sums to min(total, sum(caps)).
    """
    out = [0] * len(caps)
    for is_weighted in (True, False):
        chosen = [i for i, weight in enumerate(weights) if (weight > 0) is is_weighted and caps[i] > 0]
        scale = {i: weights[i] if is_weighted else 1 for i in chosen}
        rest = sum(scale.values())
        for i in sorted(chosen, key=lambda i: (caps[i] / scale[i], i)):
            out[i] = min(caps[i], total * scale[i] // rest)
            total, rest = total - out[i], rest - scale[i]
    return out


def _corrected(sides: Sequence[Side], more: Sequence[int], over: int, correction: float) -> list[int]:
    """The weights of those that want more, shifted against those that borrowed more than their part."""
    wanting = [i for i, want in enumerate(more) if want > 0]
    weights = sum(sides[i].weight for i in wanting)
    borrowed = {i: max(0, sides[i].use - sides[i].owned) for i in wanting}
    # Little borrowed in the past, in comparison with what is to borrow now, shifts little.
    whole = max(over, sum(borrowed.values()))
    out = [0] * len(sides)
    for i in wanting if weights and whole else ():
        part = sides[i].weight / weights
        out[i] = max(0, round(FINE * (part + correction * (part - borrowed[i] / whole)))) if part else 0
    return out


class Above(NamedTuple):
    """Teams that hold more of a pool than they own and are entitled to, as columns; milli-GPU."""

    names: list[str]
    held: Ints
    part: Ints  # what they are entitled to
    over: Ints  # what they hold beyond their nominal quota
    below: list[int]  # the rows of teams that are a part of another
    numbers: Ints  # of these teams in the ledger, -1 for one that runs nothing


class Entitlement:
    """What each team is entitled to on one plan, and how far it is from that.

    over_budget: teams whose budget is used up; what they have waiting wants nothing.
    """

    def __init__(self, plan: Plan, settings: Settings, over_budget: Container[str]) -> None:
        self._plan, self._settings, self._over_budget = plan, settings, over_budget
        self._above: dict[str, tuple[int, Above]] = {}  # by pool: a state of what is held, and the answer

    @cached_property
    def shares(self) -> dict[tuple[str, str], int]:
        """What each team's subtree is entitled to in each pool, milli-GPU; the same throughout a round.

        What is placed or has to leave meanwhile wants no more and no less, so it is computed once for a plan.
        """
        demand = _demand(self._plan, self._over_budget)
        return {
            (team, pool): milli
            for pool in self._plan.usage.tree.pools
            for team, milli in _of_pool(self._plan, pool, demand[pool], self._settings.use_correction).items()
        }

    def deserved(self) -> Pool:
        """What each team's distance is measured by: its entitlement over all pools, in each at least what it owns."""
        tree = self._plan.usage.tree
        return {
            name: sum(
                max(self.shares.get((name, pool), 0), tree.quota_nodes[name, pool].nominal) for pool in tree.pools
            )
            for name in tree.paths
            if name != CLUSTER
        }

    def above(self, pool: str) -> Above:
        """The teams above their entitlement in a pool; the same object as long as nothing held changes."""
        usage, share = self._plan.usage, self.shares
        known = self._above.get(pool)
        if known is None or known[0] != usage.state:
            total, tree = usage.total[FUTURE_IDLE], usage.tree
            names = [t for t in usage.borrowers(pool) if total[t, pool] > share.get((t, pool), 0)]
            columns = [
                (h := total[t, pool], share.get((t, pool), 0), h - tree.quota_nodes[t, pool].nominal) for t in names
            ]
            held, part, over = np.array(columns, dtype=np.int64).reshape(-1, 3).T
            below = [row for row, name in enumerate(names) if name not in tree.roots]
            numbers = np.array([self._plan.ledger.team_number.get(name, -1) for name in names], dtype=np.int64)
            known = self._above[pool] = usage.state, Above(names, held, part, over, below, numbers)
        return known[1]

    def spares(self, team: str, pool: str, need: int) -> Ints:
        """What `spare` says of each team that is `above`, in its order; milli-GPU, 0 for nothing."""
        usage = self._plan.usage
        total, tree = usage.total[FUTURE_IDLE], usage.tree
        has, share = total[team, pool] + need, self.shares.get((team, pool), 0)
        others = self.above(pool)
        if team in tree.roots and total[team, pool] < share:
            # Rounded up. 64 bits hold the product: a pool of a million GPUs is 10^9.
            out: Ints = np.maximum(0, np.minimum(others.held + -has * others.part // share, others.over))
            rows = others.below
        else:
            out, rows = np.zeros(len(others.names), dtype=np.int64), list(range(len(others.names)))
        for row in rows:
            out[row] = self.spare(team, others.names[row], pool, need)
        return out

    def spare(self, team: str, other: str, pool: str, need: int) -> int:
        """How much a team above its entitlement may be made to give to one below its own that then holds `need` more.

        Compared at the children of the two teams' lowest common ancestor, by held over entitlement. The claimant's
        side is below 1 all the way down, the other above; afterwards the claimant's is still not above the other's,
        and none of the other's teams is below its nominal quota. So the lower of the two rises with each such step:
        with entitlements as they are there can be only so many (Kueue's rule S2-a, LessThanOrEqualToFinalShare).
        0 if nothing.
        """
        usage, known = self._plan.usage, self.shares
        tree, total = usage.tree, usage.total[FUTURE_IDLE]
        mine, theirs = tree.path(team), tree.path(other)
        ours = [n for n in mine if n not in theirs]
        others = [n for n in theirs if n not in mine]
        if not ours or not others:
            return 0
        if any(total[n, pool] >= known[n, pool] for n in ours):
            return 0
        if any(total[n, pool] <= known[n, pool] for n in others):
            return 0
        side, across = (ours[-1], pool), (others[-1], pool)
        least = -(-(total[side] + need) * known[across] // known[side])  # rounded up: exact in integers
        over = [total[n, pool] - tree.quota_nodes[n, pool].nominal for n in others]
        return max(0, min(total[across] - least, *over))


def _of_pool(plan: Plan, pool: str, own: Pool, correction: float) -> Pool:
    """Entitlements in one pool, from the cluster down. own: what each team's own workloads want."""
    tree = plan.usage.tree
    used = {use.team: use.milli for use in plan.snapshot.use if use.pool == pool}
    wanted, uses = _summed(plan, own), _summed(plan, used)
    out: Pool = {}

    def below(name: str, total: int) -> None:
        children = tree.children.get(name, ())
        if not children:
            return
        sides = [_side(plan, child, pool, wanted[child], uses[child]) for child in children]
        node = tree.quota_nodes[name, pool]
        weight = node.quota.weight if node.quota else 1
        mine = node.owned - sum(tree.quota_nodes[child, pool].owned for child in children) if name != CLUSTER else 0
        sides.append(Side(own.get(name, 0), mine, weight=weight, use=used.get(name, 0)))
        for child, milli in zip(children, divide(total, sides, correction), strict=False):
            out[child] = milli
            below(child, milli)

    below(CLUSTER, plan.inventory.healthy_milli.get(pool, 0))
    return out


def _side(plan: Plan, team: str, pool: str, demand: int, use: int) -> Side:
    node = plan.usage.tree.quota_nodes[team, pool]
    kept = node.owned - node.shared + node.kept_from_lending
    return Side(demand, node.owned, kept, node.most, node.quota.weight if node.quota else 1, use)


def _summed(plan: Plan, own: Pool) -> Pool:
    """Sums over subtrees."""
    paths = plan.usage.tree.paths
    out = dict.fromkeys(paths, 0)
    for team, milli in own.items():
        for name in paths.get(team, ()):
            out[name] += milli
    return out


def _demand(plan: Plan, over_budget: Container[str]) -> dict[str, Pool]:
    """By pool and team: what its own workloads hold and mean to keep, and what waits and could start, milli-GPU."""
    usage, tree = plan.usage, plan.usage.tree
    out: dict[str, Pool] = {}
    for pool in tree.pools:
        total = {team: usage.total[FUTURE_IDLE][team, pool] for team in tree.paths}
        out[pool] = {t: total[t] - sum(total[child] for child in tree.children.get(t, ())) for t in tree.paths}
    elastic = plan.ledger.elastic
    lenders = {*plan.ledger.lending, *(uid for uid in plan.changed() if uid in elastic)}
    for gang in map(plan.workload, lenders):  # what it was lent beyond its count entitles to nothing
        if (lent := surplus(gang)) and gang.team in tree.paths:
            for pool, milli in usage.by_pool(gang).items():
                out[pool][gang.team] -= min(milli, lent * gang.ask.milli)
    for want, milli in _wanted(plan, over_budget).items():
        if milli and (found := _home(plan, want)) is not None:
            out[found][want.team] += milli
    return out


def _wanted(plan: Plan, over_budget: Container[str]) -> dict[Want, int]:
    """Milli-GPU wanted by work that only room and quota keep from starting, and by what is made to leave."""
    at, known, ledger = plan.snapshot.at, plan.usage.tree.paths, plan.ledger
    wants, changed = dict(ledger.wants), set(plan.changed())

    def add(workload: Workload, sign: int = 1) -> None:
        want = want_of(workload)
        wants[want] = wants.get(want, 0) + sign * workload.need_milli(workload.missing)

    for uid in changed & ledger.waiting.keys() - ledger.gated.keys():
        add(ledger.waiting[uid], -1)
    again = [plan.workload(uid) for uid in sorted(changed & ledger.waiting.keys())]
    for workload in (*again, *(w for uid, w in ledger.gated.items() if uid not in changed)):
        is_held_back = workload.unmet or (workload.not_before is not None and workload.not_before > at)
        if workload.is_waiting and not is_held_back:
            add(workload)
    wants = {want: milli for want, milli in wants.items() if want.team in known and want.team not in over_budget}
    for workload in plan.leaving.values():
        if workload.phase is Phase.CHECKPOINTING and workload.team in known:
            add(workload)
    return wants


def _home(plan: Plan, want: Want) -> str | None:
    """The pool in which it counts as demand: the first that it may use and its team owns, else the first."""
    fitting = [
        (want.models.index(f.model) if want.models else 0, f.gpu_memory, f.pool)
        for f in plan.inventory.flavors
        if (not want.models or f.model in want.models) and f.gpu_memory >= want.memory
    ]
    pools = [pool for _, _, pool in sorted(fitting)]
    tree = plan.usage.tree
    return next(
        (pool for pool in pools if tree.quota_nodes[tree.root_of[want.team], pool].owned), next(iter(pools), None)
    )
