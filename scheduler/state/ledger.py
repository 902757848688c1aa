"""What each workload and team holds, and what waits; kept by difference between snapshots, not counted in each round.

Those that hold something have a row in a table of columns, so that candidates for leaving are found by arithmetic on
whole columns. Everything here follows from the snapshot, independent of the order in which it was counted.
"""

import operator
from collections.abc import Iterable, Mapping
from itertools import compress, filterfalse
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scheduler.model.snapshot import Bools, Ints, Inventory, Snapshot
from scheduler.model.workload import ACTIVE, Kind, Phase, Weights, Workload, can_grow, can_shrink, surplus
from scheduler.quota.tree import Tree, Usage
from scheduler.state.pending import PendingQueue
from scheduler.state.slots import Slotted

Floats = NDArray[np.float64]
Pair = tuple[Workload | None, Workload | None]  # a workload before and after a change
SEQ, PRIORITY, MILLI, WORKERS, TEAM, POOL = range(6)  # columns of `ints`; POOL: in tree.pools, or one of
NOWHERE, SEVERAL = -1, -2
STARTED, SAVED, QUEUED = range(3)  # columns of `times`: when it started (0: not yet), last lost nothing, was queued
MAY_LEAVE, MOVABLE, SERVICE, HOLDS, RUNS = range(
    5
)  # columns of `flags`; MAY_LEAVE: but for what time and the past forbid
_DICTS = (
    "waiting", "wants", "gated", "again", "holding", "unsettled", "moving", "elastic", "lending", "growable",
    "preempted", "team_number", "borrowing", "sleeping", "wishing", "offloaded", "labelled", "models",
)  # fmt: skip
MAX_PAIRS = 4000  # changes after which counting anew is as fast, or half of all workloads


class Want(NamedTuple):
    """Whose, and on which devices: all that decides in which pool it counts as demand."""

    team: str
    models: tuple[str, ...]
    memory: int  # MiB a device must have


def want_of(workload: Workload) -> Want:
    """What the demand of a workload is counted under."""
    if not workload.roles:
        return Want(workload.team, workload.ask.models, workload.ask.min_memory)
    asks = [workload.ask, *(role.ask for role in workload.roles)]
    models = next((ask.models for ask in asks if ask.milli and ask.models), ())
    return Want(workload.team, models, max(ask.min_memory for ask in asks))


class Rows(NamedTuple):
    """What workers that stay hold. devices: [.., 5] (slot, device, milli-GPU, MiB, rank); hosts: [.., 6] (slot, node,
    1/1000 cores, MiB, milli-GPU but at least 1, rank)."""

    devices: Ints
    hosts: Ints


class Ledger(Slotted):
    """Of one snapshot. By slot: ints [S, 6], times [S, 3], flags [S, 5]."""

    columns = ("ints", "times", "flags")

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.tree = Tree(snapshot)
        self.usage = Usage(self.tree, {n.name: n.pool for n in snapshot.inventory.nodes})
        self.waiting: dict[str, Workload] = {}
        self.again: dict[str, Workload] = {}  # wait, and had to leave before
        self.holding: dict[str, Workload] = {}
        self.wants: dict[Want, int] = {}  # milli-GPU of those that wait and that nothing gates
        self.gated: dict[str, Workload] = {}  # wait, but for something else or for a time
        self.unsettled: dict[str, Workload] = {}  # some of its workers leave, or have places that are not free yet
        self.moving: dict[str, Workload] = {}
        self.elastic: dict[str, Workload] = {}  # have workers beyond their minimum
        self.lending: dict[str, Workload] = {}  # those of them with workers beyond their count
        self.growable: dict[str, Workload] = {}  # elastic gangs that run with fewer workers than they can use
        self.borrowing: dict[str, Workload] = {}  # have workers on the devices of sleeping replicas
        self.sleeping: dict[str, Workload] = {}  # services with replicas asleep
        self.wishing: dict[str, Workload] = {}  # run and ask for other places
        self.offloaded: dict[str, Workload] = {}  # services with weights in the memory of nodes
        self.labelled: dict[str, Workload] = {}  # ask for a share with labels, whether they wait or hold one
        self.models: dict[str, Workload] = {}  # services that ask for a share, whether they wait or hold one
        self.preempted: dict[str, Workload] = {}  # hold something, and had to leave before
        self.team_number: dict[str, int] = {}
        size = max(64, len(snapshot.workloads))
        self.pending = PendingQueue(size)  # those that wait, as columns
        self.ints: Ints = np.zeros((size, 6), dtype=np.int64)
        self.times: Floats = np.zeros((size, 3))
        self.flags: Bools = np.zeros((size, 5), dtype=np.bool_)
        self.rows = Rows(np.zeros((0, 5), dtype=np.int64), np.zeros((0, 6), dtype=np.int64))
        self._change([(None, workload) for workload in snapshot.workloads.values()], snapshot.inventory)
        self.usage.count_all(self.holding.values())

    def after(self, pairs: Iterable[Pair], inventory: Inventory) -> "Ledger":
        """That of the snapshot with these workloads exchanged: (before or None, after or None)."""
        other = self._copied()
        other.usage = self.usage.copy()
        other.follow(pairs, inventory)
        return other

    def follow(self, pairs: Iterable[Pair], inventory: Inventory) -> None:
        """Become that of the snapshot with these workloads exchanged: (before or None, after or None)."""
        changes = list(pairs)
        self._change(changes, inventory)
        for old, new in changes:
            if old is not None and new is not None:
                self.usage.exchange(old, new)
            elif old is not None:
                self.usage.count(old, -1)
            elif new is not None:
                self.usage.count(new)
        self.pending.tidy()

    def _copied(self) -> Self:
        """Another with rows, a pending queue and dicts of its own; what is held is shared."""
        other = super()._copied()
        for name in _DICTS:
            setattr(other, name, dict(getattr(self, name)))
        other.pending = self.pending.copy()
        return other

    def under(self, tree: Tree) -> "Ledger":
        """That of the same work under other quotas, for the same pools."""
        other = self._copied()
        other.tree, other.usage = tree, Usage(tree, self.usage.pool_of)
        other.usage.count_all(self.holding.values())
        return other

    def on_nodes(self, nodes: Iterable[int]) -> list[Workload]:
        """Those with a worker that stays on one of these nodes, by submission."""
        hosts = self.rows.hosts
        found = np.unique(hosts[np.isin(hosts[:, 1], list(nodes)), 0])
        there = [w for slot in found.tolist() if (w := self.slots[slot]) is not None]
        return sorted(there, key=lambda w: w.seq)

    def _change(self, pairs: Iterable[Pair], inventory: Inventory) -> None:
        freed: list[int] = []
        added: list[tuple[int, Workload]] = []
        for old, new in pairs:
            if old is not None:
                freed += self._forget(old)
            if new is not None:
                added += self._note(new)
            was, waits = old is not None and is_in_line(old), new is not None and is_in_line(new)
            if was or waits:
                self.pending.exchange(old if was else None, new if waits else None)
        # A slot may be given away again within the same change, so rows of the freed go first.
        self._exchange_rows(freed, added, inventory)

    def _forget(self, workload: Workload) -> list[int]:
        uid = workload.id
        if uid in self.waiting and uid not in self.gated:
            self._want(workload, -1)
        others = self.holding, self.unsettled, self.moving, self.elastic, self.lending, self.growable, self.preempted
        rare = self.borrowing, self.sleeping, self.offloaded, self.wishing, self.labelled, self.models
        for kept in (self.waiting, self.gated, self.again, *others, *rare):
            kept.pop(uid, None)
        slot = self._give_back(uid)
        if slot is None:
            return []
        self.flags[slot] = False
        return [slot]

    def _note(self, workload: Workload) -> list[tuple[int, Workload]]:
        uid = workload.id
        if is_in_line(workload):
            self._note_waiting(workload)
        if workload.moving:
            self.moving[uid] = workload
        if workload.ask.share and workload.ask.share.labels:
            self.labelled[uid] = workload
        if is_model(workload):
            self.models[uid] = workload
        if not workload.placement:
            return []
        self.holding[uid] = workload
        if workload.phase is Phase.RESERVED or any(a.leaving or a.reserved for a in workload.placement):
            self.unsettled[uid] = workload
        self._note_elastic(workload)
        self._note_standby(workload)
        if workload.preempted_by:
            self.preempted[uid] = workload
        slot = self._take_slot(workload)
        self._fill(slot, workload)
        return [(slot, workload)]

    def _note_elastic(self, workload: Workload) -> None:
        if can_shrink(workload):
            self.elastic[workload.id] = workload
        if surplus(workload):
            self.lending[workload.id] = workload
        if workload.kind is Kind.TRAINING and any(a.lender for a in workload.placement):
            self.borrowing[workload.id] = workload
        if can_grow(workload):
            self.growable[workload.id] = workload
        if workload.goes_to and workload.phase is Phase.RUNNING:
            self.wishing[workload.id] = workload

    def _note_standby(self, workload: Workload) -> None:
        if workload.awake is not None and any(a.asleep_at is not None for a in workload.placement):
            self.sleeping[workload.id] = workload
        if any(a.weights == Weights.HOST for a in workload.placement):
            self.offloaded[workload.id] = workload

    def _note_waiting(self, workload: Workload) -> None:
        uid = workload.id
        self.waiting[uid] = workload
        if workload.phase is Phase.QUEUED and workload.preempted_by:
            self.again[uid] = workload
        if workload.unmet or workload.not_before is not None:
            self.gated[uid] = workload
        else:
            self._want(workload, 1)

    def _want(self, workload: Workload, sign: int) -> None:
        want = want_of(workload)
        self.wants[want] = self.wants.get(want, 0) + sign * workload.need_milli(workload.missing)
        if not self.wants[want]:
            del self.wants[want]

    def _fill(self, slot: int, w: Workload) -> None:
        team = self.team_number.setdefault(w.team, len(self.team_number))
        pool_of, pools = self.usage.pool_of, self.tree.pools
        held = {pool_of[a.node] for a in w.placement if not a.leaving and a.node in pool_of} if w.uses_gpus else set()
        pool = NOWHERE if not held else pools.index(next(iter(held))) if len(held) == 1 else SEVERAL
        self.ints[slot] = (w.seq, w.priority, w.held_milli, len(w.placement), team, pool)
        started = w.started_at or 0.0
        self.times[slot] = (started, max(started, w.checkpointed_at or 0.0), w.queued_at)
        may_leave = w.preemptible and w.phase in ACTIVE and not w.after and w.started_at is not None
        self.flags[slot] = (may_leave, is_movable(w), w.kind is Kind.INFERENCE, True, w.started_at is not None)

    def _exchange_rows(self, freed: list[int], added: list[tuple[int, Workload]], inventory: Inventory) -> None:
        devices: list[tuple[int, ...]] = []
        hosts: list[tuple[int, ...]] = []
        offset = inventory.offset
        for slot, w in added:
            if self.slots[slot] is not w:
                continue  # was changed once more
            for worker in w.placement:
                node = inventory.index.get(worker.node)
                if node is None or worker.leaving:
                    continue
                milli, memory = w.on_device(worker)
                hosts.append((slot, node, *w.on_node(worker), max(1, w.milli_of(worker)), worker.rank))
                first, after = int(offset[node]), int(offset[node + 1])  # a node may come back with fewer devices
                found = (first + index for index in worker.gpus if first + index < after)
                devices += [(slot, device, milli, memory, worker.rank) for device in found]
        stays = np.ones(len(self.ints), dtype=np.bool_)
        stays[freed] = False
        self.rows = Rows(
            _exchanged(self.rows.devices, stays, devices) if freed or devices else self.rows.devices,
            _exchanged(self.rows.hosts, stays, hosts) if freed or hosts else self.rows.hosts,
        )


def _exchanged(rows: Ints, stays: Bools, new: list[tuple[int, ...]]) -> Ints:
    kept: Ints = rows[stays[rows[:, 0]]]
    return np.concatenate([kept, np.array(new, dtype=np.int64).reshape(-1, rows.shape[1])]) if new else kept


class Ledgers:
    """The ledger of the last snapshot that was asked for, from which the next one's follows (scheduler/state/memo.py).

    Snapshots that follow each other share all but a few workloads. What differs is found by comparing identities, so
    that nothing has to tell about a change, and a snapshot of anything else is only slower.

    hands_on: what asks is done with a ledger before it asks for the next one, so that this is the same one, changed,
    and no copy: a round of 50,000 GPUs copies for 30 ms. `recount.check` compares it with one that is counted anew.
    """

    def __init__(self, known: "Ledgers | None" = None, *, hands_on: bool = False) -> None:
        self._ledger: Ledger | None = known._ledger if known else None
        self._of: Snapshot | None = known._of if known else None
        self._hands_on = hands_on
        self._is_shared = known is not None  # others may still look at the ledger
        if known is not None:
            known._is_shared = True

    def of(self, snapshot: Snapshot) -> Ledger:
        """The snapshot's ledger: the one before by difference, or counted anew."""
        before, of = self._ledger, self._of
        self._ledger, self._of = None, None  # what breaks off leaves nothing half changed behind
        self._ledger = self._next(before, of, snapshot)
        self._is_shared = self._is_shared and self._ledger is before
        self._of = snapshot
        return self._ledger

    @property
    def last(self) -> tuple[Ledger, Snapshot] | None:
        """The last ledger and its snapshot; None before the first."""
        return None if self._ledger is None or self._of is None else (self._ledger, self._of)

    def _next(self, ledger: Ledger | None, of: Snapshot | None, snapshot: Snapshot) -> Ledger:
        if ledger is None or of is None or snapshot.inventory is not of.inventory or snapshot.teams is not of.teams:
            return Ledger(snapshot)
        pairs = [] if snapshot.workloads is of.workloads else _differences(of.workloads, snapshot.workloads)
        if len(pairs) > max(MAX_PAIRS, len(snapshot.workloads) // 2):
            return Ledger(snapshot)
        if pairs and self._hands_on and not self._is_shared:
            ledger.follow(pairs, snapshot.inventory)
        elif pairs:
            ledger = ledger.after(pairs, snapshot.inventory)
        if snapshot.quotas is of.quotas:
            return ledger
        tree = Tree(snapshot)
        return ledger.under(tree) if tree.pools == ledger.tree.pools else Ledger(snapshot)  # rows number the pools


def _differences(old: Mapping[str, Workload], new: Mapping[str, Workload]) -> list[Pair]:
    """Workloads that are not the same in both, before and after: those that changed or came, then those that went."""
    is_other = map(operator.is_not, new.values(), map(old.get, new))
    pairs: list[Pair] = [(old.get(uid), new[uid]) for uid in compress(new, is_other)]
    if len(old) + sum(before is None for before, _ in pairs) != len(new):
        pairs += [(old[uid], None) for uid in filterfalse(new.__contains__, old)]
    return pairs


def is_in_line(workload: Workload) -> bool:
    """Whether it waits for a turn: it is queued, or a service that lacks replicas."""
    return workload.phase is Phase.QUEUED or (workload.kind is Kind.INFERENCE and workload.is_waiting)


def is_model(workload: Workload) -> bool:
    """Whether it serves a model on shares of GPUs."""
    return workload.kind is Kind.INFERENCE and workload.ask.share is not None


def is_movable(workload: Workload) -> bool:
    """Whether it loses little when it starts again elsewhere: it saves checkpoints, and no client calls it."""
    saves = workload.checkpoint_interval is not None or workload.checkpointed_at is not None
    return saves and workload.kind is not Kind.INFERENCE and workload.uses_gpus
