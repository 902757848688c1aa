"""The running workloads that may be made to leave, as columns: what each would lose and would free.

Numbers of candidates ascend with cost, so that a sorted array of them is in the order in which to ask.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpushare.gpu import WHOLE
from scheduler.fit.capacity import per_node
from scheduler.model.settings import Settings
from scheduler.model.snapshot import FUTURE_IDLE, Bools, Ints
from scheduler.model.workload import Workload, staying
from scheduler.quota.tree import ENDLESS
from scheduler.state.free import Free, free_of
from scheduler.state.ledger import (
    MAY_LEAVE,
    MILLI,
    MOVABLE,
    POOL,
    PRIORITY,
    QUEUED,
    SAVED,
    SEQ,
    SERVICE,
    SEVERAL,
    STARTED,
    TEAM,
    WORKERS,
    Ledger,
)
from scheduler.state.passes import cheapest, without
from scheduler.state.plan import Plan

Floats = NDArray[np.float64]


class Evictable:
    """Candidates of one snapshot under one setting; what a plan decides meanwhile is asked for at each use."""

    def __init__(self, plan: Plan, settings: Settings) -> None:
        ledger = plan.ledger
        slots = _may_leave(plan, settings)
        costs = _costs(ledger, slots, plan.snapshot.at, settings)
        ints = ledger.ints[slots]
        order = np.lexsort((-ints[:, SEQ], ints[:, PRIORITY], costs))
        slots, ints = slots[order], ints[order]
        self._slots, self._whose = slots, ledger.slots
        self.elastic = sorted(ledger.elastic.values(), key=lambda w: w.seq)
        self.lenders = [n for n, gang in enumerate(self.elastic) if gang.id in ledger.lending]  # numbers in `elastic`
        self.costs: Floats = costs[order]
        self.priority, self.milli, self.team, self.pool = (ints[:, i] for i in (PRIORITY, MILLI, TEAM, POOL))
        self.started: Floats = ledger.times[slots, STARTED]
        self.queued: Floats = ledger.times[slots, QUEUED]
        self.movable = np.flatnonzero(ledger.flags[slots, MOVABLE])
        self.moves_tried = 0  # sets of moves that consolidation looked at in this round
        self.tried = 0  # searches of this round in which quota would have been enough without all candidates
        self.team_number = ledger.team_number  # in the column `team`
        self._usage, self._pools = plan.usage, plan.usage.tree.pools
        self._held_by_pool: dict[str, tuple[Workload, dict[str, int]]] = {}
        self._of_team: dict[str, Ints] = {}
        self._of_pool: dict[str, Ints] = {}
        self._since: dict[tuple[str, float], Ints] = {}
        self._least: dict[tuple[str, float], Ints] = {}
        self._below: dict[tuple[str, int], dict[str, int]] = {}  # by team and priority
        self._stays_at = plan, -1  # a plan after so many swaps, and the workloads that it has not moved
        self._stays: Bools = np.zeros(0, dtype=np.bool_)
        self._moved: set[str] = set()  # by that plan then
        self._slot, self._rows = ledger.slot, ledger.rows
        self._unsettled, self._index = ledger.unsettled, plan.inventory.index
        self._given: dict[
            tuple[str, ...], tuple[Ints, Ints]
        ] = {}  # by gangs: what they could give of each device, node
        self._at = np.full(len(ledger.ints), -1, dtype=np.int64)  # the number of the candidate in each slot, -1: none
        self._at[slots] = np.arange(len(slots))

    @cached_property
    def _devices(self) -> Ints:
        """What candidates hold of devices: the ledger's rows, with their numbers in the place of slots."""
        return self._numbered(self._rows.devices)

    @cached_property
    def _hosts(self) -> Ints:
        """The same of nodes; by node, and there by number."""
        hosts = self._numbered(self._rows.hosts)
        ordered: Ints = hosts[np.lexsort((hosts[:, 0], hosts[:, 1]))]
        return ordered

    def _numbered(self, rows: Ints) -> Ints:
        """Those rows of the ledger that candidates have, with their numbers in the place of slots."""
        numbers = self._at[rows[:, 0]]
        out: Ints = rows[numbers >= 0]
        out[:, 0] = numbers[numbers >= 0]
        return out

    @cached_property
    def elastic_of_team(self) -> dict[str, list[int]]:
        """The elastic gangs by team, by their numbers in `elastic`; those that hold nothing of a pool under ""."""
        found: dict[str, list[int]] = {}
        for number, gang in enumerate(self.elastic):
            found.setdefault(gang.team if self.held(gang) else "", []).append(number)
        return found

    def held(self, gang: Workload) -> dict[str, int]:
        """What an elastic gang holds by pool, in milli-GPU."""
        known = self._held_by_pool.get(gang.id)
        if known is None or known[0] is not gang:
            known = self._held_by_pool[gang.id] = gang, self._usage.by_pool(gang)
        return known[1]

    def held_by_teams(self, gangs: Iterable[Workload], pool: str) -> list[tuple[str, int]]:
        """What these elastic gangs hold in a pool, by team."""
        sums: dict[str, int] = {}
        for gang in gangs:
            sums[gang.team] = sums.get(gang.team, 0) + self.held(gang).get(pool, 0)
        return [(team, milli) for team, milli in sums.items() if milli]

    @cached_property
    def workloads(self) -> list[Workload]:
        """The candidates, the cheapest first."""
        return [w for slot in self._slots.tolist() if (w := self._whose[slot]) is not None]

    def workload(self, number: int) -> Workload:
        """One of the candidates."""
        found: Workload | None = self._whose[int(self._slots[number])]
        assert found is not None  # noqa: S101 - a candidate has a row
        return found

    def of_team(self, team: str) -> Ints:
        """A team's own candidates, the cheapest first."""
        known = self._of_team.get(team)
        if known is None:
            known = self._of_team[team] = np.flatnonzero(self.team == self.team_number.get(team, -1))
        return known

    def below(self, team: str, priority: int, pool: str) -> int:
        """The most milli-GPU of a pool that a team's candidates of lower priority hold: one of several counts whole."""
        known = self._below.get((team, priority))
        if known is None:
            lower = self.of_team(team)
            lower = lower[self.priority[lower] < priority]
            where, milli = self.pool[lower], self.milli[lower]
            anywhere = int(milli[where == SEVERAL].sum())
            sums = {name: anywhere + int(milli[where == number].sum()) for number, name in enumerate(self._pools)}
            known = self._below[team, priority] = sums
        return known.get(pool, 0)

    def of_pool(self, pool: str) -> Ints:
        """Candidates that run in this pool alone, the cheapest first."""
        known = self._of_pool.get(pool)
        if known is None:
            known = self._of_pool[pool] = np.flatnonzero(self.pool == self._pools.index(pool))
        return known

    def within(self, numbers: Ints, teams: Ints, most: Ints) -> Ints:
        """Those of these candidates that hold no more than their team gives. most: milli-GPU of each of `teams`.

        teams: their numbers, -1 for one that runs nothing; others give nothing.
        """
        may_give = np.zeros(len(self.team_number) + 1, dtype=np.int64)  # the last: of teams that run nothing
        may_give[teams] = most
        found: Ints = numbers[self.milli[numbers] <= may_give[self.team[numbers]]]
        return found

    def since(self, pool: str, latest: float) -> Ints:
        """Candidates that have run in this pool alone since then or longer, the cheapest first."""
        known = self._since.get((pool, latest))
        if known is None:
            is_here = self.pool == self._pools.index(pool)
            known = self._since[pool, latest] = np.flatnonzero(is_here & (self.started <= latest))
        return known

    def least_of_teams(self, pool: str, latest: float) -> Ints:
        """The least that one of each team's candidates `since` then holds, milli-GPU; ENDLESS for none. Shape [teams].

        In the order of `team_number`, and one more for teams that run nothing.
        """
        known = self._least.get((pool, latest))
        if known is None:
            old = self.since(pool, latest)
            known = self._least[pool, latest] = np.full(len(self.team_number) + 1, ENDLESS, dtype=np.int64)
            np.minimum.at(known, self.team[old], self.milli[old])
        return known

    def held_by_team(self, numbers: Ints, pool: str) -> list[tuple[str, int]]:
        """The most that these free in a pool: milli-GPU by their own teams, one that spans pools counted whole."""
        where = self.pool[numbers]
        here = numbers[(where == self._pools.index(pool)) | (where == SEVERAL)]
        milli = np.bincount(self.team[here], self.milli[here], len(self.team_number)).astype(np.int64)
        return [(team, int(milli[number])) for team, number in self.team_number.items() if milli[number]]

    def _number(self, uid: str) -> int:
        slot = self._slot.get(uid)
        return -1 if slot is None else int(self._at[slot])

    def present(self, plan: Plan, numbers: Ints, spared: set[str]) -> Ints:
        """Those that the plan has not moved and that are not spared."""
        if not numbers.size:
            return numbers
        of, swaps = self._stays_at
        if of is not plan or swaps != plan.swaps:
            self._follow(plan)
        kept = numbers[self._stays[numbers]]
        return kept[self._without(spared)[kept]] if spared else kept

    def _follow(self, plan: Plan) -> None:
        """Bring it up to date which candidates the plan has not moved."""
        of, _ = self._stays_at
        before = self._moved if of is plan else set()
        if of is not plan or not self._stays.size:
            self._stays = np.ones(len(self._slots), dtype=np.bool_)
        for uid in before ^ plan.moved:
            if (number := self._number(uid)) >= 0:
                self._stays[number] = uid not in plan.moved
        self._stays_at, self._moved = (plan, plan.swaps), set(plan.moved)

    def _without(self, uids: Iterable[str]) -> Bools:
        """All candidates but these. Shape [candidates]."""
        stays = np.ones(len(self._slots), dtype=np.bool_)
        stays[[number for uid in uids if (number := self._number(uid)) >= 0]] = False
        return stays

    def free_without(self, plan: Plan, numbers: Ints) -> Free:
        """What would be free, later, if these had left as well."""
        inventory, later = plan.inventory, plan.free[FUTURE_IDLE]
        gone = np.zeros(len(self._slots), dtype=np.bool_)
        gone[numbers] = True
        rows = self._kept(plan, self._devices, gone), self._kept(plan, self._hosts, gone)
        return Free(*without(inventory, rows, gone, (later.gpu, later.node)))

    def free_with(self, plan: Plan, gangs: Sequence[Workload]) -> Free:
        """The most that could be free, later, if these elastic gangs kept nothing but their first worker."""
        inventory, later, key = plan.inventory, plan.free[FUTURE_IDLE], tuple(gang.id for gang in gangs)
        known = self._given.get(key)
        if known is None:
            stays = np.full(len(self._at), np.iinfo(np.int64).max)  # ranks up to which all stay, by slot
            stays[[self._slot[gang.id] for gang in gangs]] = [staying(gang)[0] for gang in gangs]
            sums = []
            for rows, shape in ((self._rows.devices, later.gpu.shape), (self._rows.hosts, later.node.shape)):
                go = rows[rows[:, -1] > stays[rows[:, 0]]]
                sums.append(np.array([np.bincount(go[:, 1], go[:, column], shape[1]) for column in (2, 3)]))
            known = self._given[key] = sums[0].astype(np.int64), sums[1].astype(np.int64)
        gpu, host = (np.minimum(now + more, most) for now, more, most in zip(
            (later.gpu, later.node), known, (inventory.gpu_capacity, inventory.node_capacity), strict=True
        ))  # fmt: skip
        return free_of(inventory, gpu, host)

    def _kept(self, plan: Plan, rows: Ints, chosen: Bools) -> Ints:
        """All rows, without the workers that an elastic gang of the chosen gives up on the plan."""
        given: Bools | None = None
        for gang in self.elastic:
            number, now = self._number(gang.id), plan.workload(gang.id)
            if number >= 0 and chosen[number] and now is not gang:
                ranks = [a.rank for a in now.placement if a.leaving]
                theirs = (rows[:, 0] == number) & np.isin(rows[:, -1], ranks)
                given = theirs if given is None else given | theirs
        return rows if given is None else rows[~given]

    def on_nodes(self, numbers: Ints, nodes: Bools) -> Ints:
        """Those of the candidates that have a worker on one of these nodes that stays. nodes: shape [N]."""
        return numbers[self._are_there(self._hosts, nodes)[numbers]]

    def are_there(self, numbers: Ints, nodes: Bools) -> Bools:
        """Which of the candidates have a worker on one of these nodes, leaving ones included. nodes: shape [N]."""
        there = self._are_there(self._hosts, nodes) | self._are_there(self._leaving, nodes)
        found: Bools = there[numbers]
        return found

    def _are_there(self, rows: Ints, nodes: Bools) -> Bools:
        """Which candidates have one of these rows of hosts on one of these nodes. Shape [candidates]."""
        there = np.zeros(len(self._slots), dtype=np.bool_)
        there[rows[nodes[rows[:, 1]], 0]] = True
        return there

    @cached_property
    def _leaving(self) -> Ints:
        """Rows (candidate, node) of workers of candidates that leave already: a gang that shrinks has such."""
        index = self._index
        found = ((self._number(uid), w) for uid, w in self._unsettled.items())
        rows = [(n, index[a.node]) for n, w in found if n >= 0 for a in w.placement if a.leaving and a.node in index]
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    def prices(
        self, plan: Plan, claimant: Workload, numbers: Ints, free: Free, allowed: Bools, costs: Floats | None = None
    ) -> Floats:
        """About what room for one worker costs on each node; inf where none can be made. Shape [N].

        costs: of each candidate, by default what it loses; with ones it is how many have to leave.

        The cheapest candidates of a node are counted until they hold what the worker lacks there.
        """
        inventory, ask = plan.inventory, claimant.ask
        later = plan.open_to(claimant, plan.free[FUTURE_IDLE], FUTURE_IDLE)
        could = per_node(inventory, ask, free, allowed) > 0
        has_room = per_node(inventory, ask, later, allowed) > 0
        missing = np.maximum(1, ask.milli - (later.idle * WHOLE if ask.gpus else 0))
        missing = np.where(has_room | ~could, 0, missing)
        chosen = np.zeros(len(self._slots), dtype=np.bool_)
        chosen[numbers] = True
        rows = self._kept(plan, self._hosts, chosen)
        price = cheapest(rows, chosen, missing, self.costs if costs is None else costs)
        return np.where(could, price, np.inf)


def _may_leave(plan: Plan, settings: Settings) -> Ints:
    """Slots of those that may be made to leave now: preemptible, not just started, not preempted too often."""
    ledger, at = plan.ledger, plan.snapshot.at
    may: Bools = ledger.flags[:, MAY_LEAVE] & (at - ledger.times[:, STARTED] >= settings.min_runtime_seconds)
    most = settings.max_preemptions
    for uid, workload in ledger.preempted.items():
        if len(workload.preempted_by) >= most and len(recent_preemptors(workload, at, settings)) >= most:
            may[ledger.slot[uid]] = False
    return np.flatnonzero(may)


def _costs(ledger: Ledger, slots: Ints, at: float, settings: Settings) -> Floats:
    """What `cost` says, of many."""
    lost = np.maximum(0.0, at - ledger.times[slots, SAVED])
    lost = np.where(ledger.flags[slots, SERVICE], settings.outage_seconds, lost)
    breakage = settings.rejoin_seconds * np.maximum(0, ledger.ints[slots, WORKERS] - 1)
    out: Floats = (lost + settings.restart_seconds + breakage) * np.maximum(1, ledger.ints[slots, MILLI])
    return out


def recent_preemptors(workload: Workload, at: float, settings: Settings) -> list[str]:
    """The claimants that preempted it within the window, once for each time."""
    since = at - settings.preemption_window_seconds
    pairs = zip(workload.preempted_at, workload.preempted_by, strict=False)
    return [by for when, by in pairs if when > since]


def preemption_limited(plan: Plan, settings: Settings) -> frozenset[str]:
    """Those that wait and were preempted so often that they may not be preempted again: they start within nominal only.

    So what may not be taken back from a team never adds up to more than it owns.
    """
    at, most = plan.snapshot.at, settings.max_preemptions
    often = ((uid, w) for uid, w in plan.ledger.again.items() if len(w.preempted_by) >= most)
    return frozenset(uid for uid, w in often if len(recent_preemptors(w, at, settings)) >= most)
