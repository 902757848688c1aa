"""The books of an in-memory run: what the database keeps in production, as values in one process.

A Book holds the scheduler's snapshot, beside it what only the life cycle remembers of each workload, and everything
that the invariants ask about: records of transitions, holds to be billed, promises of room, accepted writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.invariants.state import Account, Claim, Interval, Transition, Write
from controlplane.lifecycle.state import LEAVING, Seat, State
from controlplane.rolevalues import roles_values
from scheduler.snapshot import Node, Snapshot
from scheduler.team import Quota
from scheduler.workload import ENDED, Assignment, Phase, Workload


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
    after: Mapping[str, str] = field(default_factory=dict)  # what it waits for, by name; empty: by the kind of that one
    team: str = ""
    seats: list[Seat] = field(default_factory=list)  # of the current attempt, those that are free again included
    gpus: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by rank of the current attempt
    performed: dict[int, float] = field(default_factory=dict)  # when the start of a rank was performed
    stops: dict[int, float] = field(default_factory=dict)  # by attempt: until when it may take its time to leave
    holds: list[Interval] = field(default_factory=list)
    billed: int = 0
    billed_to: float = 0.0


class Book:
    """One run's state. Turns (turn.py) change it between `begin` and `flush`; an event is what lies between two."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.records: dict[str, Record] = {}
        self.states: dict[str, State] = {}  # of those that have not ended
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
        found = (self.get(uid) for uid in self.states)
        return sorted((w for w in found if w is not None), key=lambda w: w.seq)

    def add(self, workload: Workload, record: Record, actor: str) -> None:
        """A new workload."""
        record.team = workload.team
        self.records[workload.id] = record
        self.states[workload.id] = _state(workload, record)
        self.submitted.add(workload.id)
        self.gated |= {workload.id} if workload.unmet else set()
        self.transitions.append(Transition(workload.id, None, workload.phase, actor))
        self._put(workload)

    def step(self, row: State, before: Phase, actor: str) -> None:
        """A workload has taken a step of its life cycle."""
        self.transitions.append(Transition(row.id, before, row.phase, actor))
        if row.phase in ENDED:
            self.ended[row.id] = row.phase

    def take(self, row: State) -> None:
        """Take a workload's new values; one that has ended leaves the snapshot."""
        if row.phase in ENDED:
            self._gone.add(row.id)
            self.touched.add(row.id)
            self.states.pop(row.id, None)
            return
        old = self.get(row.id)
        if old is not None:
            self._put(_workload(old, row, self.records[row.id]))

    def _put(self, workload: Workload) -> None:
        self._changed[workload.id] = workload
        self.touched.add(workload.id)

    @property
    def leaving(self) -> frozenset[str]:
        """Workloads of which a worker still has to leave."""
        found = ((uid, self.records[uid].seats) for uid in self.states)
        return frozenset(uid for uid, seats in found if any(seat.state == LEAVING for seat in seats))

    # --- holds --------------------------------------------------------------------------------

    def hold(self, seat: Seat) -> None:
        """A place is held from now on."""
        self.records[seat.workload].holds.append(Interval(seat.attempt, seat.rank, seat.milli, self.at, None))
        self.rate += seat.milli
        self.touched.add(seat.workload)

    def release(self, seat: Seat) -> None:
        """A held place is free since its `released_at`."""
        record = self.records[seat.workload]
        for i, hold in enumerate(record.holds):
            if (hold.attempt, hold.rank, hold.end) == (seat.attempt, seat.rank, None):
                record.holds[i] = replace(hold, end=seat.released_at)
                self.rate -= hold.milli
        self.bill(seat.workload)

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

    def promise(self, row: State, workers: Sequence[Assignment], victims: Sequence[str]) -> None:
        """Note that a workload was promised the room of others."""
        self.claims.append(Claim(row.id, row.attempt, tuple(workers), tuple(victims)))

    def excuse(self, uid: str) -> None:
        """A claimant will not use its promised room, through no fault of a decision."""
        if any(claim.claimant == uid for claim in self.claims):
            self.claims = [replace(c, is_excused=True) if c.claimant == uid else c for c in self.claims]


def _state(w: Workload, record: Record) -> State:
    """What the life cycle knows of a new workload."""
    return State(
        id=w.id, name=w.name, kind=w.kind, phase=w.phase, version=w.version, attempt=w.attempt, next_rank=w.next_rank,
        gpus=w.ask.gpus, share_guarantee=w.ask.share.guarantee if w.ask.share else 0, workers=w.gang.count,
        roles=roles_values(w.roles), retries=record.retries, failures=w.failures, queued_at=w.queued_at,
        not_before=w.not_before, started_at=w.started_at, first_started_at=None, ended_at=None, exit_code=None,
        attained=w.attained, grace_seconds=w.grace_seconds, checkpointed_at=w.checkpointed_at, progress=None,
        preempted_at=list(w.preempted_at), preempted_by=list(w.preempted_by), scaled_at=w.scaled_at,
        finishing=w.finishing, moving=w.moving, reserved_after=list(w.after), unmet=list(w.unmet), intent="",
        reason=w.reason, message=w.message, reason_at=w.reason_at, seen=w.version,
    )  # fmt: skip


def _workload(old: Workload, row: State, record: Record) -> Workload:
    """A workload as the scheduler sees it."""
    placement = tuple(
        Assignment(s.rank, s.node, record.gpus.get(s.rank, ()), s.state == LEAVING, s.bound_at is None)
        for s in sorted((seat for seat in record.seats if seat.is_live), key=lambda seat: seat.rank)
    )
    return replace(
        old,
        gang=old.gang if old.gang.count == row.workers else replace(old.gang, count=row.workers),
        phase=row.phase, version=row.version, attempt=row.attempt, next_rank=row.next_rank, queued_at=row.queued_at,
        started_at=row.started_at, attained=row.attained, checkpointed_at=row.checkpointed_at,
        not_before=row.not_before, unmet=tuple(row.unmet), placement=placement, after=tuple(row.reserved_after),
        preempted_at=tuple(row.preempted_at), preempted_by=tuple(row.preempted_by), reason=row.reason,
        message=row.message, reason_at=row.reason_at, failures=row.failures, scaled_at=row.scaled_at,
        finishing=row.finishing, moving=row.moving,
    )  # fmt: skip
