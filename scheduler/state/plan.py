"""A tentative list of decisions over a snapshot: place, evict, mark, rollback.

The plan means by a decision exactly what `Snapshot.after` means by it: it changes workloads with
`applied` and the columns with `Columns.add`, and keeps beside them what searches read.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gpushare.gpu import WHOLE
from scheduler.model.decision import Evict, EvictReason, Offload, Place, Shrink, Whose
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, IDLE, MEMORY, Bools, Columns, Ints, Snapshot, applied
from scheduler.model.terms import of_evict, of_place, of_shrink, of_taken_back
from scheduler.model.workload import Assignment, Phase, Weights, Workload, with_standby
from scheduler.state.free import Free, free_of, is_idle
from scheduler.state.ledger import Ledger, is_model
from scheduler.state.passes import refresh
from scheduler.state.tenants import Tenants, has_share

Change = Place | Evict | Shrink | Offload


class Follower(Protocol):
    """What counts along with a plan: it is told of each workload that the plan changes, tentatively or for good."""

    def changed(self, old: Workload, new: Workload) -> None:
        """A workload is now like this instead of like that."""


class Plan:
    """The world as it would be; `free[IDLE]` may be used at once, `free[FUTURE_IDLE]` once all that leaves has left.

    ledger: the snapshot's; counted here if none is given.
    """

    def __init__(self, snapshot: Snapshot, ledger: Ledger | None = None) -> None:
        self.snapshot = snapshot
        self.inventory = snapshot.inventory
        self.columns: Columns = snapshot.columns.copy()
        self.ledger = Ledger(snapshot) if ledger is None else ledger
        self.usage = self.ledger.usage.copy()
        self.reserved: dict[str, Workload] = {}  # hold places that are not free yet
        self.leaving: dict[str, Workload] = {}  # have workers that are being stopped
        # By node, the same again: what waits for a place there, and what has a worker there that is being stopped.
        self._wanted: defaultdict[str, dict[str, Workload]] = defaultdict(dict)
        self._left: defaultdict[str, dict[str, Workload]] = defaultdict(dict)
        self._leaves: dict[
            str, tuple[Workload, dict[str, int]]
        ] = {}  # by workload: as it was, what leaves of each pool
        self.followers: list[Follower] = []
        self.view: dict[str, Workload] = {}  # those that the plan has changed, as they would be
        self.moved: set[str] = set()  # of these, without those that are as they were again: `changed`, in no order
        self.swaps = 0  # changes of a workload, tried ones included: what a search costs
        self.log: list[tuple[Workload, Change | None]] = []  # what was before, and the decision
        for workload in sorted(self.ledger.unsettled.values(), key=lambda w: w.seq):
            self._sort_in(workload)
        self.free = self._all_free()

    @cached_property
    def waiting(self) -> list[Workload]:
        """Those that wanted something when the round began, by submission."""
        return sorted(self.ledger.waiting.values(), key=lambda w: w.seq)

    @cached_property
    def holding(self) -> list[Workload]:
        """Those with a placement when the round began, by submission."""
        return sorted(self.ledger.holding.values(), key=lambda w: w.seq)

    @cached_property
    def tenants(self) -> Tenants | None:
        """Whose shares lie where, from the first time that it is asked; None: any may lie beside any other."""
        snapshot = self.snapshot
        is_open = all(team.shares_with_others for team in snapshot.teams)
        if is_open and not self.ledger.labelled and not self.parts_models:
            return None
        seen = {**self.ledger.holding, **self.view}
        found = Tenants(self.inventory, snapshot.teams, seen.values())
        self.followers.append(found)
        return found

    @cached_property
    def parts_models(self) -> bool:
        """Whether models keep each other off GPUs: several ask for shares, and nothing holds shares on some node."""
        return len(self.ledger.models) > 1 and bool(self.inventory.advisory.any())

    # what is so now

    def open_to(self, workload: Workload, free: Free, when: int) -> Free:
        """What is free for this workload: devices with shares beside which its own may not lie are none of it."""
        tenants = self.tenants if has_share(workload) else None
        if tenants is None:
            return free
        closed = tenants.closed_to(workload, when)
        if self.ledger.labelled:
            closed |= tenants.kept_from(workload, when, is_idle(free.gpu))
        return self.beside_no_model(workload, _without(free, closed), when)

    def beside_no_model(self, workload: Workload, free: Free, when: int) -> Free:
        """The same without devices where it would lie beside another model and nothing holds shares to their parts."""
        if self.tenants is None or not (self.parts_models and is_model(workload)):
            return free
        return _without(free, self.tenants.closed_to_model(workload, when))

    def has_gpus_of_its_own(self, workload: Workload) -> bool:
        """Whether a service may lie on GPUs that it has where no other model may: what they are told is not for it."""
        is_there = bool(workload.placement) and workload.phase is not Phase.QUEUED
        return is_there and self.parts_models and is_model(workload)

    def workload(self, uid: str) -> Workload:
        """The workload as it would be."""
        return self.view.get(uid) or self.snapshot.workloads[uid]

    @property
    def decisions(self) -> tuple[Change, ...]:
        """What is decided so far, in order."""
        return tuple(decision for _, decision in self.log if decision is not None)

    def leaving_on(self, node: str) -> dict[str, Workload]:
        """Those of `leaving` that have a worker there that is being stopped."""
        return self._left.get(node, {})

    def leaving_milli(self, workload: Workload) -> dict[str, int]:
        """Milli-GPU by pool of its workers that are being stopped; remembered, as each claim asks it of all."""
        known = self._leaves.get(workload.id)
        if known is None or known[0] is not workload:
            sums: dict[str, int] = {}
            for worker in workload.placement:
                pool = self.usage.pool_of.get(worker.node) if worker.leaving else None
                if pool is not None:
                    sums[pool] = sums.get(pool, 0) + workload.milli_of(worker)
            known = self._leaves[workload.id] = workload, sums
        return known[1]

    def changed(self) -> list[str]:
        """Workloads that are not as the snapshot has them."""
        known = self.snapshot.workloads
        return [uid for uid, workload in self.view.items() if known.get(uid) is not workload]

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self.log)

    # changes

    def place(self, workload: Workload, workers: tuple[Assignment, ...], after: Iterable[str] = ()) -> None:
        """Give workers their places, at once or after others have left."""
        workers = with_standby(workload, workers, self.snapshot.at)
        place = Place(workload.id, workload.version, workers, tuple(sorted(after)))
        self._apply(place)
        terms = of_place(self.inventory, workers, self.free[FUTURE_IDLE].idle)
        self.log[-1] = (self.log[-1][0], replace(place, terms=terms))

    def evict(self, victim: Workload, reason: EvictReason, by: str, message: str = "") -> None:
        """Make a workload leave."""
        at = self.snapshot.at
        terms = of_taken_back(victim, at) if reason is EvictReason.TAKEN_BACK else of_evict(victim, at)
        self._apply(Evict(victim.id, victim.version, reason, by, message, terms))

    def shrink(
        self, gang: Workload, ranks: Iterable[int], by: str, message: str = "", whose: Whose | None = None
    ) -> None:
        """Make some workers of an elastic gang leave. whose: the GPUs that go to others; None: its own wish."""
        leaving = tuple(sorted(ranks))
        terms = () if whose is None else of_shrink(gang, leaving, whose)
        self._apply(Shrink(gang.id, gang.version, leaving, message, by, terms))

    def offload(self, service: Workload, ranks: Iterable[int], to: Weights, by: str, message: str) -> None:
        """Have the weights of sleeping replicas moved to their node's memory, or back."""
        self._apply(Offload(service.id, service.version, tuple(sorted(ranks)), to, by, message))

    def repeat(self, decision: Change) -> None:
        """Decide what a plan of the same world decided."""
        self._apply(decision)

    def put(self, workload: Workload) -> None:
        """Have a workload otherwise without deciding it: a place kept, or a tentative eviction taken back.

        A decision that it takes back goes with the next rollback.
        """
        self.log.append((self.workload(workload.id), None))
        self._swap(workload)

    def keep(self, leaver: Workload, places: tuple[Assignment, ...]) -> None:
        """Have places kept for a workload that leaves its own; if this plan made it leave, the decision says so."""
        kept = tuple(replace(place, reserved=True) for place in places)
        self.put(replace(leaver, placement=(*leaver.placement, *kept)))
        for at, (before, decision) in enumerate(self.log):
            if isinstance(decision, Evict) and decision.workload == leaver.id:
                self.log[at] = (before, replace(decision, keeps=places))

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        while len(self.log) > mark:
            before, _ = self.log.pop()
            self._swap(before)

    def _apply(self, decision: Change) -> None:
        before = self.workload(decision.workload)
        self.log.append((before, decision))
        self._swap(applied(before, decision, self.snapshot.at))

    def _swap(self, new: Workload) -> None:
        self.swaps += 1
        old = self.workload(new.id)
        self.columns.exchange(self.inventory, old, new)
        self.usage.exchange(old, new)
        for follower in self.followers:
            follower.changed(old, new)
        self.view[new.id] = new
        (self.moved.discard if self.snapshot.workloads.get(new.id) is new else self.moved.add)(new.id)
        self._sort_out(old)
        self._sort_in(new)
        index = self.inventory.index
        names = {a.node for a in old.placement} | {a.node for a in new.placement}
        for node in sorted(index[name] for name in names if name in index):
            self._refresh(node)

    def _sort_in(self, workload: Workload) -> None:
        uid = workload.id
        if workload.phase is Phase.RESERVED or any(worker.reserved for worker in workload.placement):
            self.reserved[uid] = workload
            for worker in workload.placement:
                self._wanted[worker.node][uid] = workload
        for worker in workload.placement:
            if worker.leaving:
                self.leaving[uid] = workload
                self._left[worker.node][uid] = workload

    def _sort_out(self, workload: Workload) -> None:
        uid = workload.id
        if self.reserved.pop(uid, None) is not None:
            for worker in workload.placement:
                self._wanted[worker.node].pop(uid, None)
        if self.leaving.pop(uid, None) is not None:
            for worker in workload.placement:
                if worker.leaving:
                    self._left[worker.node].pop(uid, None)

    # free columns

    def _all_free(self) -> tuple[Free, Free]:
        inventory, columns = self.inventory, self.columns
        used, hosts = columns.gpu, columns.node
        now = free_of(inventory, inventory.gpu_capacity - used.max(axis=0), inventory.node_capacity - hosts.max(axis=0))
        later = free_of(
            inventory, inventory.gpu_capacity - used[FUTURE_IDLE], inventory.node_capacity - hosts[FUTURE_IDLE]
        )
        self.free = (now, later)
        if self.ledger.borrowing:
            self._close(now, 0, len(inventory.node_of))
            now.idle[:] = np.bincount(inventory.node_of, is_idle(now.gpu), len(inventory.nodes))
        for node in self._contested():
            self._refresh(node)
        return self.free

    def _refresh(self, node: int) -> None:
        inventory, columns = self.inventory, self.columns
        first, end = int(inventory.offset[node]), int(inventory.offset[node + 1])
        gpu, host = columns.gpu[:, :, first:end], columns.node[:, :, node]
        extra_gpu, extra_host = self._not_awaited(node)
        if isinstance(extra_gpu, int) and not self.ledger.borrowing:
            now, later = self.free
            refresh(node, inventory, columns, (now.gpu, now.node, now.idle), (later.gpu, later.node, later.idle))
            return
        used = {IDLE: np.maximum(gpu[IDLE], gpu[FUTURE_IDLE] + extra_gpu), FUTURE_IDLE: gpu[FUTURE_IDLE]}
        host_used = {IDLE: np.maximum(host[IDLE], host[FUTURE_IDLE] + extra_host), FUTURE_IDLE: host[FUTURE_IDLE]}
        for when in (IDLE, FUTURE_IDLE):
            free = self.free[when]
            free.gpu[:, first:end] = inventory.gpu_capacity[:, first:end] - used[when]
            free.node[:, node] = inventory.node_capacity[:, node] - host_used[when]
            if when == IDLE and self.ledger.borrowing:
                self._close(free, first, end)
            free.idle[node] = np.count_nonzero(is_idle(free.gpu[:, first:end]))

    def _close(self, free: Free, first: int, end: int) -> None:
        """Nothing of a device is free now while a worker is left there that a service lent it to: it takes memory only.

        It leaves when its lender does, so later it is in no way. first, end: the devices that are looked at.
        """
        compute, memory = free.gpu[COMPUTE, first:end], free.gpu[MEMORY, first:end]
        compute[(compute == WHOLE) & (memory < self.inventory.gpu_capacity[MEMORY, first:end])] = 0

    def _contested(self) -> list[int]:
        """Nodes where some wait for a place and others leave."""
        index = self.inventory.index
        return sorted(index[name] for name in self._wanted.keys() & self._left.keys() if name in index)

    def _not_awaited(self, node: int) -> tuple[Ints | int, Ints | int]:
        """What on a node leaves without a reserved worker there waiting for it.

        That worker may start first, so new work must fit beside both. Shapes [2, devices] and [2].
        """
        name = self.inventory.nodes[node].name
        waiters, there = self._wanted.get(name), self._left.get(name)
        if not waiters or not there:
            return 0, 0
        leavers = [w for w in there.values() if any(w.id not in (r.id, *r.after) for r in waiters.values())]
        gpu = np.zeros((2, self.inventory.nodes[node].gpus), dtype=np.int64)
        host = np.zeros(2, dtype=np.int64)
        for leaver in leavers:
            for worker in leaver.placement:
                if worker.leaving and worker.node == name:
                    host += leaver.on_node(worker)
                    at = [index for index in worker.gpus if index < gpu.shape[1]]
                    milli, memory = leaver.on_device(worker)
                    gpu[COMPUTE, at] += milli
                    gpu[MEMORY, at] += memory
        return gpu, host


def _without(free: Free, closed: Bools) -> Free:
    """What is free on the devices that are not closed. Shape [G]."""
    return Free(np.where(closed, 0, free.gpu), free.node, free.idle) if closed.any() else free
