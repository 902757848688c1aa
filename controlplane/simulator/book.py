"""The books of an in-memory run: what the database keeps in production, as values in one process.

A Book holds the scheduler's snapshot, beside it what only the life cycle remembers of each workload, and everything
that the invariants ask about: records of transitions, holds to be billed, promises of room, accepted writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.cluster.port import PodPhase
from controlplane.invariants.state import Account, Claim, Interval, Transition, Write
from gpushare.gpu import WHOLE
from scheduler.dependency import DEPENDENCY_FAILED, verdict
from scheduler.snapshot import Node, Snapshot
from scheduler.team import Quota
from scheduler.workload import ENDED, Assignment, Phase, Workload, may_move


class IllegalMove(Exception):  # noqa: N818  (what happened, not a mistake)
    """A step that the life cycle does not have."""


@dataclass(frozen=True, slots=True)
class Action:
    """One command for the cluster, written with a decision and performed later: start or stop these ranks."""

    verb: str
    workload: str
    attempt: int
    ranks: tuple[int, ...]
    grace: float = 0.0


@dataclass(slots=True)
class Record:
    """What the scheduler need not know of a workload."""

    spec: dict[str, Any]
    retries: int = 0
    failures: int = 0
    after: dict[str, str] = field(default_factory=dict)  # what it waits for, by name; empty: by the kind of that one
    intent: str = ""  # while the workers of an attempt that broke are leaving: requeue or fail
    seen: dict[int, PodPhase] = field(default_factory=dict)  # by rank of the current attempt
    performed: dict[int, float] = field(default_factory=dict)  # when the start of a rank was performed
    holds: list[Interval] = field(default_factory=list)
    billed: int = 0
    billed_to: float = 0.0


class Book:
    """One run's state. `lifecycle` changes it between `begin` and `flush`; an event is what lies between two."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.records: dict[str, Record] = {}
        self.ended: dict[str, Phase] = {}
        self.submitted: set[str] = set()
        self.gated: set[str] = set()  # those that were submitted to start after others
        self.outbox: list[Action] = []
        self.claims: list[Claim] = []
        self.epoch = 1
        self.rate = 0
        self.transitions: list[Transition] = []
        self.writes: list[Write] = []
        self.touched: set[str] = set()
        self._changed: dict[str, Workload] = {}
        self._gone: set[str] = set()

    @property
    def at(self) -> float:
        """The cluster's clock as last observed."""
        return self.snapshot.at

    # --- events -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget what led to the last event."""
        self.transitions.clear()
        self.writes.clear()
        self.touched.clear()

    def flush(self, at: float | None = None) -> None:
        """Take all changes of an event into the snapshot, by difference."""
        if self._changed or self._gone or (at is not None and at != self.snapshot.at):
            changed = [w for uid, w in self._changed.items() if uid not in self._gone]
            self.snapshot = self.snapshot.replace(at=at, changed=changed, gone=self._gone)
            self._changed, self._gone = {}, set()

    def rebuild(self, nodes: Sequence[Node] | None = None, quotas: Sequence[Quota] | None = None) -> None:
        """Change what is not a workload: the snapshot is built anew."""
        self.flush()
        old = self.snapshot
        self.snapshot = Snapshot.build(
            old.at,
            old.inventory.nodes if nodes is None else nodes,
            old.teams,
            old.quotas if quotas is None else quotas,
            old.workloads.values(),
            old.use,
            old.budgets,
        )

    # --- workloads ----------------------------------------------------------------------------

    def get(self, uid: str) -> Workload | None:
        """The workload as it is within this event; None when it has ended or never was."""
        return None if uid in self._gone else self._changed.get(uid) or self.snapshot.workloads.get(uid)

    def living(self) -> list[Workload]:
        """All that have not ended, in order of submission."""
        ids = dict.fromkeys((*self.snapshot.workloads, *self._changed))
        return sorted((w for uid in ids if (w := self.get(uid)) is not None), key=lambda w: w.seq)

    def add(self, workload: Workload, record: Record, actor: str) -> None:
        """A new workload."""
        self.records[workload.id] = record
        self.submitted.add(workload.id)
        self.gated |= {workload.id} if workload.unmet else set()
        self.transitions.append(Transition(workload.id, None, workload.phase, actor))
        self.put(workload)

    def put(self, workload: Workload) -> Workload:
        """Take a workload's new value."""
        self._changed[workload.id] = workload
        self.touched.add(workload.id)
        return workload

    def move(self, workload: Workload, to: Phase, actor: str, **changes: Any) -> Workload:
        """Take one step of the life cycle, with its record; raises IllegalMove if there is no such step."""
        if not may_move(workload.phase, to):
            raise IllegalMove(f"{workload.id}: {workload.phase} -> {to}")
        self.transitions.append(Transition(workload.id, workload.phase, to, actor))
        moved = self.put(replace(workload, phase=to, version=workload.version + 1, **changes))
        if to in ENDED:
            self.ended[workload.id] = to
            self._gone.add(workload.id)
            self.excuse(workload.id)
        if to in ENDED or to == Phase.RUNNING:
            self._follow(moved, actor)
        return moved

    def _follow(self, moved: Workload, actor: str) -> None:
        """It runs or has ended now, which others wait for: that wait is over, or can never be, which ends them."""
        waiting = (self.get(uid) for uid in sorted(self.gated))
        for one in [w for w in waiting if w and w.team == moved.team and moved.name in w.unmet]:
            is_met = verdict(self.records[one.id].after.get(moved.name, ""), moved.kind, moved.phase)
            if is_met:
                self.put(replace(one, unmet=tuple(name for name in one.unmet if name != moved.name)))
            elif is_met is False and one.phase in (Phase.SUBMITTED, Phase.QUEUED, Phase.HELD):
                self.move(one, Phase.STOPPED, actor, reason=DEPENDENCY_FAILED)

    # --- holds --------------------------------------------------------------------------------

    def hold(self, workload: Workload, workers: Sequence[Assignment]) -> None:
        """These workers hold their places from now on."""
        record = self.records[workload.id]
        for worker in workers:
            milli = workload.ask_of(worker.rank).milli
            record.holds.append(Interval(workload.attempt, worker.rank, milli, self.at, None))
            self.rate += milli
        self.touched.add(workload.id)

    def release(self, workload: Workload, worker: Assignment, at: float) -> Workload:
        """A worker's place is free; `at` is when its pod ended. What it held is added to what was attained."""
        record = self.records[workload.id]
        record.seen.pop(worker.rank, None)
        attained = workload.attained
        for i, hold in enumerate(record.holds):
            if (hold.attempt, hold.rank, hold.end) == (workload.attempt, worker.rank, None):
                end = min(max(at, hold.start), self.at)
                record.holds[i] = replace(hold, end=end)
                self.rate -= hold.milli
                attained += hold.milli * int(end - hold.start)
        self.bill(workload.id)
        placement = tuple(a for a in workload.placement if a.rank != worker.rank)
        return self.put(replace(workload, placement=placement, attained=attained))

    def bill(self, uid: str) -> None:
        """Bill a workload for what it held up to now: the difference to what it was billed before."""
        record = self.records[uid]
        until = self.at
        owed = sum(h.milli * int((until if h.end is None else min(h.end, until)) - h.start) for h in record.holds)
        record.billed, record.billed_to = owed, until
        self.touched.add(uid)

    def accounts(self) -> dict[str, Account]:
        """The accounts of the workloads that this event touched."""
        out = {}
        for uid in self.touched:
            if (record := self.records.get(uid)) is not None:
                out[uid] = Account(record.billed, record.billed_to, tuple(record.holds))
        return out

    # --- promises -----------------------------------------------------------------------------

    def promise(self, workload: Workload, workers: Sequence[Assignment], victims: Sequence[str]) -> None:
        """Note that a workload was promised the room of others."""
        self.claims.append(Claim(workload.id, workload.attempt, tuple(workers), tuple(victims)))

    def excuse(self, uid: str) -> None:
        """A claimant will not use its promised room, through no fault of a decision."""
        if any(claim.claimant == uid for claim in self.claims):
            self.claims = [replace(c, is_excused=True) if c.claimant == uid else c for c in self.claims]

    def milli_held(self) -> int:
        """Milli-GPU held this moment, counted from the placements."""
        held = (w for w in self.snapshot.workloads.values() if w.phase != Phase.RESERVED)
        return sum(w.ask_of(a.rank).milli for w in held for a in w.placement if not a.reserved)

    def milli_there(self) -> int:
        """Milli-GPU of all devices."""
        return sum(node.gpus for node in self.snapshot.inventory.nodes) * WHOLE
