"""What each team may hold in each node pool, and what it holds: the tree of quotas, in milli-GPU.

Root teams hang under one invisible root, the cluster, which owns what no team owns. A team
keeps back its nominal quota less its lending limit; the rest can be borrowed by others.
Source: Kueue's resource node (pkg/cache/scheduler/resource_node.go), with one difference: a
parent's nominal quota includes its children's (Run:ai's department), it does not come on top.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from gpushare.gpu import WHOLE
from scheduler.model.decision import Reason
from scheduler.model.snapshot import FUTURE_IDLE, IDLE, Snapshot, is_staying
from scheduler.model.team import Quota
from scheduler.model.workload import Phase, Workload


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """One team in one pool: what its subtree owns, what of it no child keeps, and what is kept from lending."""

    quota: Quota | None
    owned: int
    shared: int
    kept_from_lending: int
    own: int  # what no child owns: that is for the team's own work

    @property
    def nominal(self) -> int:
        """milli-GPU the team's own quota row names, and no less than its children own; 0 without a row.

        A parent whose row says less than its children's together must not keep them from what they own.
        """
        return self.owned if self.quota else 0

    @property
    def most(self) -> int | None:
        """The most the subtree may hold, None without a limit."""
        return None if self.quota is None or self.quota.borrowing is None else self.owned + self.quota.borrowing


class Limit(NamedTuple):
    """What stops a team from holding more in a pool: which team's number, and the figures, in milli-GPU."""

    reason: Reason
    pool: str
    team: str
    held: int
    most: int


CLUSTER = ""  # the name of the invisible root
ENDLESS = 1 << 60  # milli-GPU


Changes = list[tuple[str, int]]  # (team, milli-GPU) that is held as well; negative: no longer held
Held = tuple[tuple[str, bool, str, int, int], ...]  # team, whether it may be preempted, pool, state, milli-GPU


class Tree:
    """The quotas of one snapshot, which do not change within a round."""

    def __init__(self, snapshot: Snapshot) -> None:
        parent_of = {team.name: team.parent for team in snapshot.teams}
        self.paths = {name: _path(name, parent_of) for name in parent_of}
        self.root_of = {name: path[-2] for name, path in self.paths.items()}
        self.roots = frozenset(self.root_of.values())
        self.paths[CLUSTER] = (CLUSTER,)
        capacity: dict[str, int] = {}
        for node in snapshot.inventory.nodes:
            capacity[node.pool] = capacity.get(node.pool, 0) + node.gpus * WHOLE
        rows = {(q.team, q.pool): q for q in snapshot.quotas}
        self.pools = tuple(sorted(capacity.keys() | {pool for _, pool in rows}))
        self.lends_less = {q.pool for q in snapshot.quotas if q.lending is not None}
        children: dict[str, list[str]] = {}
        for name, path in self.paths.items():
            if name != CLUSTER:
                children.setdefault(path[1], []).append(name)
        self.children = {name: tuple(sorted(below)) for name, below in children.items()}
        self.quota_nodes: dict[tuple[str, str], QuotaNode] = {}
        for pool in self.pools:
            for name in sorted(self.paths, key=lambda n: (-len(self.paths[n]), n)):  # children before parents
                quota = rows.get((name, pool))
                below = [self.quota_nodes[child, pool] for child in children.get(name, ())]
                said = capacity.get(pool, 0) if name == CLUSTER else quota.nominal if quota else 0
                theirs = sum(node.owned for node in below)
                owned = max(said, theirs)
                shared = owned - sum(node.owned - node.shared + node.kept_from_lending for node in below)
                kept = 0 if quota is None or quota.lending is None else max(0, shared - quota.lending)
                self.quota_nodes[name, pool] = QuotaNode(quota, owned, shared, kept, owned - theirs)
        self.nominal = {key: node.nominal for key, node in self.quota_nodes.items()}
        self.of_pool = {pool: [(name, pool) for name in self.paths if name != CLUSTER] for pool in self.pools}
        self.parents = [name for name in self.children if name != CLUSTER]
        self._ways: dict[tuple[str, str], tuple[tuple[tuple[str, str], QuotaNode], ...]] = {}  # from the cluster down
        self._ceilings: dict[tuple[str, str], int] = {}

    def path(self, team: str) -> tuple[str, ...]:
        """The team, its parent, ... and the cluster."""
        return self.paths[team]

    def available(self, team: str, pool: str, stored: Mapping[tuple[str, str], int]) -> int:
        """How much more the team may hold, borrowing included; 0 when it is over."""
        way = self._ways.get((team, pool)) or self._way(team, pool)
        key, node = way[0]
        free = node.shared - stored.get(key, 0)
        free = free if free > 0 else 0  # not `max`: this is asked ten thousand times in a round
        for key, node in way[1:]:
            used, kept = stored.get(key, 0), node.kept_from_lending
            if node.quota is not None and node.quota.borrowing is not None:
                over = used - kept if used > kept else 0
                most = node.shared - kept - over + node.quota.borrowing
                if most < free:
                    free = most if most > 0 else 0
            if kept > used:
                free += kept - used
        return free

    def _way(self, team: str, pool: str) -> tuple[tuple[tuple[str, str], QuotaNode], ...]:
        """What `available` meets: thousands of times in a round, so it is put together once."""
        way = tuple(((name, pool), self.quota_nodes[name, pool]) for name in reversed(self.paths[team]))
        self._ways[team, pool] = way
        return way

    def ceiling(self, team: str, pool: str) -> int:
        """The most the team could ever hold, in an empty cluster."""
        most = self._ceilings.get((team, pool))
        if most is None:
            most = self._ceilings[team, pool] = self.available(team, pool, {})
        return most


class Usage:
    """What is held, by team, pool and state (IDLE: bound; FUTURE_IDLE: bound or reserved, without what leaves)."""

    def __init__(self, tree: Tree, pool_of: dict[str, str]) -> None:
        self.tree = tree
        self.pool_of = pool_of
        keys = tree.quota_nodes.keys()
        self.total = ({k: 0 for k in keys}, {k: 0 for k in keys})  # of the whole subtree
        self._stored = (
            {k: 0 for k in keys},
            {k: 0 for k in keys},
        )  # Kueue's usage: children count beyond what they keep
        self.firm = ({k: 0 for k in keys}, {k: 0 for k in keys})  # the part that may not be preempted
        self.state = 0  # a number that no other state of this usage has
        self._states = 0
        self._borrowers: dict[str, tuple[int, list[str]]] = {}  # by pool, as of that state

    def copy(self) -> "Usage":
        """The same counts, to be changed apart."""
        other = copy(self)
        other.total, other._stored, other.firm = (  # noqa: SLF001  (its own class)
            (dict(now), dict(later)) for now, later in (self.total, self._stored, self.firm)
        )
        other._borrowers = {}  # noqa: SLF001
        return other

    def count_all(self, workloads: Iterable[Workload], sign: int = 1) -> None:
        """Count many placements (sign -1: no longer): what `count` does for each, summed before it is charged."""
        sums: dict[tuple[str, bool, str, int], int] = {}
        for workload in workloads:
            if workload.uses_gpus:
                for (pool, when), milli in held(workload, self.pool_of).items():
                    key = (workload.team, workload.preemptible, pool, when)
                    sums[key] = sums.get(key, 0) + milli
        for (team, is_preemptible, pool, when), milli in sums.items():
            self._add(team, is_preemptible, pool, when, sign * milli)

    def own(self) -> Held:
        """What each team's own work holds, without its children's, where that is anything."""
        found: list[tuple[str, bool, str, int, int]] = []
        for when in (IDLE, FUTURE_IDLE):
            for name, pool in self.tree.quota_nodes:
                firm, total = (
                    sums[when][name, pool] - sum(sums[when][child, pool] for child in self.tree.children.get(name, ()))
                    for sums in (self.firm, self.total)
                )
                parts = ((name, False, pool, when, firm), (name, True, pool, when, total - firm))
                found += [part for part in parts if part[-1] and name != CLUSTER]
        return tuple(found)

    def hold(self, held: Held) -> None:
        """Count what `own` told of another usage; what no team or pool is known of any more is left out."""
        for team, is_preemptible, pool, when, milli in held:
            if (team, pool) in self.tree.quota_nodes:
                self._add(team, is_preemptible, pool, when, milli)

    def count(self, workload: Workload, sign: int = 1) -> None:
        """Count a workload's placement (sign -1: no longer)."""
        if not workload.placement or not workload.uses_gpus:
            return
        for (pool, when), milli in held(workload, self.pool_of).items():
            self._add(workload.team, workload.preemptible, pool, when, sign * milli)

    def exchange(self, old: Workload, new: Workload) -> None:
        """Count a workload as it is now instead of as it was: only where it holds something else is charged."""
        if (old.team, old.preemptible) != (new.team, new.preemptible):
            self.count(old, -1)
            self.count(new)
            return
        before, after = ({} if not w.placement or not w.uses_gpus else held(w, self.pool_of) for w in (old, new))
        for key in before.keys() | after.keys():
            if more := after.get(key, 0) - before.get(key, 0):
                self._add(new.team, new.preemptible, *key, more)

    def count_staying(self, workload: Workload, sign: int) -> None:
        """Count what a running workload would free if it were made to leave, as of then (sign -1: no longer)."""
        if not workload.uses_gpus:
            return
        sums: dict[str, int] = {}
        for worker in workload.placement:
            pool = self.pool_of.get(worker.node)
            if pool is not None and is_staying(workload, worker):
                sums[pool] = sums.get(pool, 0) + workload.milli_of(worker)
        for pool, milli in sums.items():
            self._add(workload.team, workload.preemptible, pool, FUTURE_IDLE, sign * milli)

    def _add(self, team: str, is_preemptible: bool, pool: str, when: int, milli: int) -> None:
        self.charge(team, pool, when, milli)
        if not is_preemptible:
            for name in self.tree.path(team):
                self.firm[when][name, pool] += milli

    def charge(self, team: str, pool: str, when: int, milli: int) -> None:
        """Add milli-GPU along the path of a team; negative takes away."""
        total, stored, excess = self.total[when], self._stored[when], milli
        self._states += 1
        self.state = self._states
        for name in self.tree.path(team):
            key = (name, pool)
            total[key] += milli
            kept = self.tree.quota_nodes[key].kept_from_lending
            before = max(0, stored[key] - kept)
            stored[key] += excess
            excess = max(0, stored[key] - kept) - before

    def available(self, team: str, pool: str, when: int) -> int:
        """How much more the team may hold in that state, borrowing included; 0 when it is over."""
        return self.tree.available(team, pool, self._stored[when])

    def available_assuming(self, team: str, pool: str, when: int, others: Changes) -> int:
        """`available` once these are held as well."""
        with self.assuming(pool, when, others):
            return self.tree.available(team, pool, self._stored[when])

    @contextmanager
    def assuming(self, pool: str, when: int, others: Changes) -> Iterator[None]:
        """Meanwhile these are held as well; afterwards all is, and is called, as it was."""
        state = self.state
        for other, milli in others:
            self.charge(other, pool, when, milli)
        yield
        for other, milli in others:
            self.charge(other, pool, when, -milli)
        self.state = state

    def below_limits(self, team: str, pool: str, when: int, others: Changes) -> int:
        """How much more the team may hold by the borrowing limits on its path once these are held as well."""
        paths, quota_nodes, total = self.tree.paths, self.tree.quota_nodes, self.total[when]
        room = ENDLESS
        for name in self.tree.path(team)[:-1]:
            most = quota_nodes[name, pool].most
            if most is not None:
                further = sum(milli for other, milli in others if name in paths[other])
                room = min(room, max(0, most - total[name, pool] - further))
        return room

    def within_nominal(self, team: str, pool: str, when: int, firm_only: bool = False) -> int:
        """How much more the team may hold without borrowing; for work that may not be preempted, beside such work."""
        used = self.firm[when] if firm_only else self.total[when]
        owners = [n for n in self.tree.path(team)[:-1] if self.tree.quota_nodes[n, pool].quota is not None]
        return max(0, min((self.tree.quota_nodes[n, pool].nominal - used[n, pool] for n in owners), default=0))

    def owed(self, team: str, pool: str) -> int:
        """What is left of the nearest quota on the team's path, as far as its owner alone goes."""
        name = next((n for n in self.tree.path(team) if self.tree.quota_nodes[n, pool].quota is not None), None)
        return (
            0
            if name is None
            else max(0, self.tree.quota_nodes[name, pool].nominal - self.total[FUTURE_IDLE][name, pool])
        )

    def by_pool(self, workload: Workload) -> dict[str, int]:
        """Milli-GPU a workload holds and means to keep, by pool."""
        return {pool: milli for (pool, when), milli in held(workload, self.pool_of).items() if when == FUTURE_IDLE}

    def borrowers(self, pool: str) -> list[str]:
        """Teams that hold more than their quota in the pool, the largest borrower first.

        What a subtree holds over its nominal quota is borrowed; so is a parent's own work on what its children own.
        """
        known = self._borrowers.get(pool)
        if known is None or known[0] != self.state:
            total, nominal = self.total[FUTURE_IDLE], self.tree.nominal
            less = [(nominal[key] - total[key], key[0]) for key in self.tree.of_pool[pool]]
            over = [one for one in less if one[0] < 0]
            over += [(-more, t) for t in self.tree.parents if (more := self.from_children(t, pool)) > 0]
            known = (self.state, list(dict.fromkeys(team for _, team in sorted(over))))
            self._borrowers[pool] = known
        return known[1]

    def from_children(self, team: str, pool: str) -> int:
        """How much of what its children own a team's own work holds; below 0 where it leaves some of its own."""
        total = self.total[FUTURE_IDLE]
        below = sum(total[child, pool] for child in self.tree.children.get(team, ()))
        return total[team, pool] - below - self.tree.quota_nodes[team, pool].own

    def spare(self, team: str, other: str, pool: str, need: int) -> int:
        """How much the other team may be made to give so that this team holds `need` more of its nominal quota.

        Compared below the teams' lowest common ancestor: on the claimant's side every quota covers what
        is held and needed; on the other side none falls below its nominal. Where the other is above the team, its
        own work gives what it holds of its children's. 0 if nothing.
        """
        mine, theirs = self.tree.path(team), self.tree.path(other)
        quota_nodes, total = self.tree.quota_nodes, self.total[FUTURE_IDLE]
        owners = [n for n in mine if n not in theirs and quota_nodes[n, pool].quota is not None]
        if not owners or any(total[n, pool] + need > quota_nodes[n, pool].nominal for n in owners):
            return 0
        if other in mine:
            return max(0, self.from_children(other, pool))
        over = [
            total[n, pool] - quota_nodes[n, pool].nominal
            for n in theirs
            if n not in mine and quota_nodes[n, pool].quota
        ]
        return max(0, min(over, default=total[other, pool]))

    def spares(self, team: str, pool: str, need: int) -> tuple[list[str], list[int]]:
        """The teams that borrow in the pool and have something to spare for this one, and how much: see `spare`."""
        total, nominal, roots = self.total[FUTURE_IDLE], self.tree.nominal, self.tree.roots
        is_root, is_over = team in roots, total[team, pool] + need > nominal[team, pool]
        if is_root and (is_over or self.tree.quota_nodes[team, pool].quota is None):
            return [], []
        names, spares = list[str](), list[int]()
        for other in self.borrowers(pool):
            if not is_root or other not in roots or other == team:
                milli = self.spare(team, other, pool, need)
            else:  # each is below its quota as a whole
                milli = total[other, pool] - nominal[other, pool]
            if milli > 0:
                names.append(other)
                spares.append(milli)
        return names, spares

    def limit(self, workload: Workload, pool: str, milli: int) -> Limit | None:
        """Which number forbids the workload `milli` more in the pool, now that nothing else does; None if none."""
        team, path = workload.team, self.tree.path(workload.team)
        total = self.total[FUTURE_IDLE]
        if not workload.preemptible and milli > self.within_nominal(team, pool, FUTURE_IDLE, firm_only=True):
            owner = next((n for n in path[:-1] if self.tree.quota_nodes[n, pool].quota), team)
            firm, nominal = self.firm[FUTURE_IDLE][owner, pool], self.tree.quota_nodes[owner, pool].nominal
            return Limit(Reason.NON_PREEMPTIBLE_OVER_QUOTA, pool, owner, firm, nominal)
        if milli <= max(self.available(team, pool, FUTURE_IDLE), self.within_nominal(team, pool, FUTURE_IDLE)):
            return None
        for name in path[:-1]:
            most = self.tree.quota_nodes[name, pool].most
            if most is not None and total[name, pool] + milli > most:
                reason = Reason.WAITING_FOR_QUOTA if name == team else Reason.OVER_LIMIT
                return Limit(reason, pool, name, total[name, pool], most)
        owned = self.tree.quota_nodes[team, pool].nominal
        return Limit(Reason.FAIR_SHARE_EXCEEDED, pool, team, total[team, pool], owned)


def held(workload: Workload, pool_of: dict[str, str]) -> dict[tuple[str, int], int]:
    """Milli-GPU a workload holds by (pool, state). A worker on a node that is gone holds nothing."""
    all_reserved = workload.phase is Phase.RESERVED
    out: dict[tuple[str, int], int] = {}
    for worker in workload.placement:
        pool = pool_of.get(worker.node)
        if pool is None:
            continue
        milli = workload.milli_of(worker)
        if not (all_reserved or worker.reserved):
            out[pool, IDLE] = out.get((pool, IDLE), 0) + milli
        if not worker.leaving or all_reserved or worker.reserved:
            out[pool, FUTURE_IDLE] = out.get((pool, FUTURE_IDLE), 0) + milli
    return out


def _path(name: str, parent_of: dict[str, str | None]) -> tuple[str, ...]:
    path = [name]
    while (parent := parent_of.get(path[-1])) is not None and parent not in path:
        path.append(parent)
    return (*path, CLUSTER)


def gpus_text(milli: int) -> str:
    """Milli-GPU as people say it: 2, 0.5."""
    return f"{milli / WHOLE:g}"


def gpus_counted(milli: int) -> str:
    """Milli-GPU with the noun: 1 GPU, 0.5 GPUs."""
    return f"{gpus_text(milli)} GPU{'' if milli == WHOLE else 's'}"
