"""The running workloads that may be made to leave, as columns: what each would lose and would free.

Numbers of candidates ascend with cost, so that a sorted array of them is in the order in which to ask.
"""

import numpy as np
from numpy.typing import NDArray

from gpushare.gpu import WHOLE
from scheduler.cost import cost
from scheduler.elastic import can_shrink
from scheduler.fit import per_node
from scheduler.plan import Free, Plan, free_of
from scheduler.settings import Settings
from scheduler.snapshot import COMPUTE, LATER, MEMORY, Bools, Ints
from scheduler.workload import ACTIVE, Kind, Phase, Workload

Floats = NDArray[np.float64]


class Evictable:
    """Candidates of one snapshot under one setting; what a plan decides meanwhile is asked for at each use."""

    def __init__(self, plan: Plan, settings: Settings) -> None:
        at = plan.snapshot.at
        found = [w for w in plan.holding if not is_protected(w, at, settings)]
        ranked = sorted((cost(w, at, settings), w.priority, -w.seq, w.id) for w in found)
        found = [plan.snapshot.workloads[uid] for _, _, _, uid in ranked]
        self.workloads = found
        self.elastic = sorted((w for w in plan.holding if can_shrink(w)), key=lambda w: w.seq)
        self.costs: Floats = np.array([row[0] for row in ranked])
        self.priority = _column([w.priority for w in found])
        self.milli = _column([w.held_milli for w in found])
        self.started: Floats = np.array([w.started_at or 0.0 for w in found])
        self.moves_tried = 0  # sets of moves that consolidation looked at in this round
        self.movable = _column([i for i, w in enumerate(found) if is_movable(w)])
        self._number = {w.id: i for i, w in enumerate(found)}
        by_team: dict[str, list[int]] = {}
        for number, workload in enumerate(found):
            by_team.setdefault(workload.team, []).append(number)
        self.of_team = {team: _column(numbers) for team, numbers in by_team.items()}
        place = {team: i for i, team in enumerate(by_team)}
        self.team = _column([place[w.team] for w in found])  # which of `of_team`
        self._build_rows(plan)

    def _build_rows(self, plan: Plan) -> None:
        inventory = plan.inventory
        offset = inventory.offset.tolist()
        pools = plan.usage.tree.pools
        devices: list[tuple[int, int, int, int, int]] = []
        hosts: list[tuple[int, int, int, int, int, int]] = []
        self.pool = np.full(len(self.workloads), -1, dtype=np.int64)  # index in tree.pools; -2 = several
        for number, workload in enumerate(self.workloads):
            ask = workload.ask
            milli, memory = ask.on_device
            for worker in workload.placement:
                node = inventory.index.get(worker.node)
                if node is None or worker.leaving:
                    continue
                hosts.append((number, node, ask.cpu_milli, ask.memory, max(1, ask.milli), worker.rank))
                count = inventory.nodes[node].gpus  # a node may come back with fewer devices
                at = [offset[node] + index for index in worker.gpus if index < count]
                devices += [(number, device, milli, memory, worker.rank) for device in at]
                pool = pools.index(inventory.nodes[node].pool)
                if ask.milli and self.pool[number] != pool:
                    self.pool[number] = pool if self.pool[number] == -1 else -2
        self._devices = np.array(devices, dtype=np.int64).reshape(-1, 5)
        self._hosts = np.array(hosts, dtype=np.int64).reshape(-1, 6)

    def present(self, plan: Plan, numbers: Ints, spared: set[str]) -> Ints:
        """Those that the plan has not moved and that are not spared."""
        out = [self._number[uid] for uid in (*plan.changed(), *spared) if uid in self._number]
        if not out or not numbers.size:
            return numbers
        stays = np.ones(len(self.workloads), dtype=np.bool_)
        stays[out] = False
        return numbers[stays[numbers]]

    def free_without(self, plan: Plan, numbers: Ints) -> Free:
        """What would be free, later, if these had left as well."""
        inventory, later = plan.inventory, plan.free[LATER]
        gone = np.zeros(len(self.workloads), dtype=np.bool_)
        gone[numbers] = True
        rows, hosts = self._held(plan, self._devices, gone), self._held(plan, self._hosts, gone)
        gpu, host = later.gpu.copy(), later.node.copy()
        for kind, column in ((COMPUTE, 2), (MEMORY, 3)):
            gpu[kind] += np.bincount(rows[:, 1], rows[:, column], gpu.shape[1]).astype(np.int64)
            host[kind] += np.bincount(hosts[:, 1], hosts[:, column], host.shape[1]).astype(np.int64)
        gpu = np.where(inventory.gpu_capacity > 0, gpu, 0)
        return free_of(inventory, gpu, host)

    def _held(self, plan: Plan, rows: Ints, chosen: Bools) -> Ints:
        """The rows of the chosen, without the workers that an elastic gang of theirs gives up on the plan."""
        mask: Bools = chosen[rows[:, 0]]
        for gang in self.elastic:
            number, now = self._number.get(gang.id), plan.workload(gang.id)
            if number is not None and chosen[number] and now is not gang:
                given = [a.rank for a in now.placement if a.leaving]
                mask &= ~((rows[:, 0] == number) & np.isin(rows[:, -1], given))
        return rows[mask]

    def on_nodes(self, numbers: Ints, nodes: Bools) -> Ints:
        """Those of the candidates that have a worker on one of these nodes. nodes: shape [N]."""
        return numbers[np.isin(numbers, self._hosts[nodes[self._hosts[:, 1]], 0])]

    def prices(
        self, plan: Plan, claimant: Workload, numbers: Ints, free: Free, allowed: Bools, costs: Floats | None = None
    ) -> Floats:
        """About what room for one worker costs on each node; inf where none can be made. Shape [N].

        costs: of each candidate, by default what it loses; with ones it is how many have to leave.

        The cheapest candidates of a node are counted until they hold what the worker lacks there.
        """
        inventory, ask, later = plan.inventory, claimant.ask, plan.free[LATER]
        could = per_node(inventory, ask, free, allowed) > 0
        has_room = per_node(inventory, ask, later, allowed) > 0
        missing = np.maximum(1, ask.milli - (later.idle * WHOLE if ask.gpus else 0))
        missing = np.where(has_room | ~could, 0, missing)
        chosen = np.zeros(len(self.workloads), dtype=np.bool_)
        chosen[numbers] = True
        rows = self._held(plan, self._hosts, chosen)
        rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
        number, node, held = rows[:, 0], rows[:, 1], rows[:, 4]
        total = np.cumsum(held)
        first = np.searchsorted(node, node)  # first row of the same node
        before = total - held - (total[first] - held[first])
        is_first = np.ones(len(rows), dtype=np.bool_)  # a candidate counts once a node
        is_first[1:] = (number[1:] != number[:-1]) | (node[1:] != node[:-1])
        counted = is_first & (before < missing[node])
        each = self.costs if costs is None else costs
        price = np.bincount(node[counted], each[number[counted]], len(could))
        return np.where(could, price, np.inf)


def is_protected(workload: Workload, at: float, settings: Settings) -> bool:
    """Whether nobody may make it leave now: not preemptible, just started, or preempted too often."""
    if not workload.preemptible or workload.phase not in ACTIVE or workload.after:
        return True
    if workload.started_at is None or at - workload.started_at < settings.min_runtime_seconds:
        return True
    return bool(workload.preempted_by) and len(recent_preemptors(workload, at, settings)) >= settings.max_preemptions


def is_movable(workload: Workload) -> bool:
    """Whether it loses little when it starts again elsewhere: it saves checkpoints, and nobody calls it."""
    saves = workload.checkpoint_interval is not None or workload.checkpointed_at is not None
    return saves and workload.kind is not Kind.INFERENCE and bool(workload.ask.milli)


def recent_preemptors(workload: Workload, at: float, settings: Settings) -> list[str]:
    """Who made it leave within the window, once for each time."""
    since = at - settings.preemption_window_seconds
    pairs = zip(workload.preempted_at, workload.preempted_by, strict=False)
    return [by for when, by in pairs if when > since]


def worn(plan: Plan, settings: Settings) -> frozenset[str]:
    """Those that wait and were preempted so often that nobody may ask them again: they start within nominal only.

    So what may not be taken back from a team never adds up to more than it owns.
    """
    at, most = plan.snapshot.at, settings.max_preemptions
    return frozenset(
        w.id
        for w in plan.waiting
        if w.phase is Phase.QUEUED and w.preempted_by and len(recent_preemptors(w, at, settings)) >= most
    )


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)
