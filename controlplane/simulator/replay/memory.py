"""Workloads and their places in memory: what the database keeps in production, as values in one process.

A `Memory` holds the scheduler's snapshot and, beside it, what only the life cycle knows of each workload. Turns
(turn.py) change it; `flush` takes all that they changed into the snapshot, by difference. What else has to be written
down is its subclass's: the store of a run with invariants (chaos/store.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.cluster.port import PodPhase
from controlplane.invariants.state import Interval
from controlplane.jobspec.podsets import roles_of, roles_values
from controlplane.lifecycle.state import BOUND, LEAVING, RESERVED, Seat, State
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ENDED, Assignment, Phase, ResourceRequest, Weights, Workload
from scheduler.model.workload import LEAVING as LEAVING_PHASES


@dataclass(frozen=True, slots=True)
class Action:
    """One command for the cluster, written with a decision and performed later: start or stop these ranks."""

    verb: str
    workload: str
    attempt: int
    ranks: tuple[int, ...]
    grace: float = 0.0
    on: bool = False  # of weights: to the node's memory, or back


@dataclass(slots=True)
class Record:
    """What the scheduler need not know of a workload."""

    spec: dict[str, Any] = field(default_factory=dict)
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


class Memory:
    """One world's workloads. `at` is the cluster's clock; the snapshot is as it was at the last `flush`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.at = snapshot.at
        self.records: dict[str, Record] = {}
        self.states: dict[str, State] = {}  # of those that have not ended
        self.gated: set[str] = set()  # those that were submitted to start after others
        self.queued: set[str] = set()
        self.promised: set[str] = set()  # those with a place that others still have to leave
        self.outbox: list[Action] = []
        self._leaving: set[str] = set()
        self._changed: dict[str, Workload] = {}
        self._gone: set[str] = set()

    @property
    def is_changed(self) -> bool:
        """Whether anything is not in the snapshot yet."""
        return bool(self._changed or self._gone)

    def flush(self, at: float | None = None) -> None:
        """Take all changes into the snapshot, by difference; the clock goes on to `at`."""
        self.at = self.at if at is None else at
        if self.is_changed or self.at != self.snapshot.at:
            changed = [w for uid, w in self._changed.items() if uid not in self._gone]
            self.snapshot = self.snapshot.replace(at=self.at, changed=changed, gone=self._gone)
            self._changed, self._gone = {}, set()

    # --- workloads ----------------------------------------------------------------------------

    def get(self, uid: str) -> Workload | None:
        """The workload as it is now; None when it has ended or never was."""
        return None if uid in self._gone else self._changed.get(uid) or self.snapshot.workloads.get(uid)

    def living(self) -> list[Workload]:
        """All that have not ended, in order of submission."""
        found = (self.get(uid) for uid in self.states)
        return sorted((w for w in found if w is not None), key=lambda w: w.seq)

    def add(self, workload: Workload, record: Record, actor: str) -> None:
        """A new workload. One that comes with places has held them from now on."""
        record.team = workload.team
        record.seats = _seats(workload, self.at)
        record.gpus = {worker.rank: worker.gpus for worker in workload.placement}
        self.records[workload.id] = record
        self.states[workload.id] = _state(workload, record)
        self.gated |= {workload.id} if workload.unmet else set()
        for seat in record.seats:
            if seat.bound_at is not None:
                self.hold(seat)
        self.put(workload)

    def take(self, row: State) -> None:
        """Take a workload's new values; one that has ended leaves the snapshot."""
        if row.phase in ENDED:
            self._gone.add(row.id)
            self._changed.pop(row.id, None)
            self.states.pop(row.id, None)
            for known in (self.queued, self.promised, self._leaving):
                known.discard(row.id)
            return
        old = self.get(row.id)
        if old is not None:
            self.put(_workload(old, row, self.records[row.id]))

    def put(self, workload: Workload) -> None:
        """Keep a workload as it is from now on."""
        uid, live = workload.id, [seat for seat in self.records[workload.id].seats if seat.is_live]
        self._changed[uid] = workload
        _keep(self.queued, uid, workload.phase is Phase.QUEUED)
        _keep(self.promised, uid, any(seat.bound_at is None for seat in live))
        _keep(self._leaving, uid, any(seat.state == LEAVING for seat in live))

    @property
    def leaving(self) -> frozenset[str]:
        """Workloads of which a worker still has to leave."""
        found = ((uid, self.records[uid].seats) for uid in self._leaving | self.promised)
        return frozenset(uid for uid, seats in found if any(seat.state == LEAVING for seat in seats))

    # --- what a subclass writes down ----------------------------------------------------------

    def step(self, row: State, before: Phase, actor: str) -> None:
        """A workload has taken a step of its life cycle."""

    def ask(self, action: Action) -> None:
        """The cluster has something to do."""
        self.outbox.append(action)

    def hold(self, seat: Seat) -> None:
        """A place is held from now on."""

    def release(self, seat: Seat) -> None:
        """A held place is free since its `released_at`."""

    def promise(self, row: State, workers: list[Assignment], victims: tuple[str, ...]) -> None:
        """A workload was promised the room of others."""

    def excuse(self, uid: str) -> None:
        """A claimant will not use its promised room, through no fault of a decision."""


def _keep(known: set[str], uid: str, is_in: bool) -> None:
    if is_in:
        known.add(uid)
    else:
        known.discard(uid)


def _seats(w: Workload, at: float) -> list[Seat]:
    """The places that a workload comes with. All pods of one that runs, or that leaves, are up."""
    is_up = w.phase is Phase.RUNNING or w.phase in LEAVING_PHASES
    seats = []
    for worker in w.placement:
        is_promised = worker.reserved or w.phase is Phase.RESERVED
        state = LEAVING if worker.leaving else RESERVED if is_promised else BOUND
        pod = PodPhase.RUNNING.value if is_up and not is_promised else ""
        milli, bound_at = w.milli_of(worker), None if is_promised else at
        standby = worker.asleep_at, worker.lender, worker.weights
        seats.append(Seat(0, w.id, w.attempt, worker.rank, worker.node, milli, state, pod, bound_at, 1, *standby))
    return seats


def _state(w: Workload, record: Record) -> State:
    """What the life cycle knows of a new workload."""
    return State(
        id=w.id, name=w.name, kind=w.kind, phase=w.phase, version=w.version, attempt=w.attempt, next_rank=w.next_rank,
        gpus=w.ask.gpus, share_guarantee=w.ask.share.guarantee if w.ask.share else 0,
        share_limit=w.ask.share.limit if w.ask.share else 0, workers=w.gang.count,
        workers_min=w.gang.min, roles=roles_values(w.roles), retries=record.retries, failures=w.failures,
        queued_at=w.queued_at, not_before=w.not_before, started_at=w.started_at, first_started_at=None, ended_at=None,
        exit_code=None, attained=w.attained, grace_seconds=w.grace_seconds, checkpointed_at=w.checkpointed_at,
        progress=None, preempted_at=list(w.preempted_at), preempted_by=list(w.preempted_by), scaled_at=w.scaled_at,
        finishing=w.finishing, moving=w.moving, reserved_after=list(w.after), unmet=list(w.unmet), intent="",
        reason=w.reason, message=w.message, reason_at=w.reason_at, cpu_milli=w.ask.cpu_milli, memory=w.ask.memory,
        managed_by="", resize=None, revision=1, surge=0, rollout=None, awake=w.awake, standby=w.standby,
        goes_to=list(w.goes_to), off=list(w.off), role_counts=list(w.role_counts), batch=None,
        batch_wanted=w.batch_wanted, batch_before=None, seen=w.version,
    )  # fmt: skip


def _ask(ask: ResourceRequest, limit: int) -> ResourceRequest:
    if ask.share is None or ask.share.limit == limit:
        return ask
    return replace(ask, share=replace(ask.share, limit=limit))


def _workload(old: Workload, row: State, record: Record) -> Workload:
    """A workload as the scheduler sees it."""
    placement = tuple(
        Assignment(
            s.rank,
            s.node,
            record.gpus.get(s.rank, ()),
            s.state == LEAVING,
            s.bound_at is None,
            s.asleep_at,
            s.lender,
            Weights(s.weights),
        )  # fmt: skip
        for s in sorted((seat for seat in record.seats if seat.is_live), key=lambda seat: seat.rank)
    )
    return replace(
        old,
        ask=_ask(old.ask, row.share_limit),
        gang=old.gang if old.gang.count == row.workers else replace(old.gang, count=row.workers),
        phase=row.phase, version=row.version, attempt=row.attempt, next_rank=row.next_rank, queued_at=row.queued_at,
        started_at=row.started_at, attained=row.attained, checkpointed_at=row.checkpointed_at,
        not_before=row.not_before, unmet=tuple(row.unmet), placement=placement, after=tuple(row.reserved_after),
        preempted_at=tuple(row.preempted_at), preempted_by=tuple(row.preempted_by), reason=row.reason,
        message=row.message, reason_at=row.reason_at, failures=row.failures, scaled_at=row.scaled_at,
        finishing=row.finishing, moving=row.moving, awake=row.awake, standby=row.standby,
        goes_to=tuple(row.goes_to or ()), off=tuple(row.off or ()), role_counts=tuple(row.role_counts or ()),
        roles=roles_of(row.roles) if old.role_counts else old.roles, batch_wanted=row.batch_wanted,
    )  # fmt: skip
