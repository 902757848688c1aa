"""The store of a run with invariants: the memory of its workloads, and everything that the invariants ask about.

That is records of transitions, holds to be billed, promises of room, accepted writes.
"""

from collections.abc import Sequence
from dataclasses import replace

from controlplane.invariants.state import Account, Claim, Interval, Transition, Write
from controlplane.lifecycle.state import Seat, State
from controlplane.simulator.replay.memory import Action, Memory, Record
from scheduler.model.snapshot import Node, Snapshot
from scheduler.model.team import Quota
from scheduler.model.workload import ENDED, Assignment, Phase, Workload

__all__ = ["Action", "Record", "Store"]


class Store(Memory):
    """One run's state. Turns (replay/turn.py) change it from `begin` to `flush`; an event is what lies between."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.ended: dict[str, Phase] = {}
        self.submitted: set[str] = set()
        self.claims: list[Claim] = []
        self.epoch = 1
        self.rate = 0
        self.transitions: list[Transition] = []
        self.writes: list[Write] = []
        self.touched: set[str] = set()

    # --- events -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget what led to the last event."""
        self.transitions.clear()
        self.writes.clear()
        self.touched.clear()

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

    def add(self, workload: Workload, record: Record, actor: str) -> None:
        """A new workload."""
        super().add(workload, record, actor)
        self.submitted.add(workload.id)
        self.transitions.append(Transition(workload.id, None, workload.phase, actor))

    def step(self, row: State, before: Phase, actor: str) -> None:
        """A workload has taken a step of its life cycle."""
        self.transitions.append(Transition(row.id, before, row.phase, actor))
        if row.phase in ENDED:
            self.ended[row.id] = row.phase

    def take(self, row: State) -> None:
        """Take a workload's new values; one that has ended leaves the snapshot."""
        super().take(row)
        if row.phase in ENDED:
            self.touched.add(row.id)

    def put(self, workload: Workload) -> None:
        """Keep a workload as it is from now on."""
        super().put(workload)
        self.touched.add(workload.id)

    def ask(self, action: Action) -> None:
        """The cluster has something to do."""
        super().ask(action)
        if action.verb == "stop" and action.workload in self.records:
            self.records[action.workload].stops[action.attempt] = float("inf")  # until it is performed

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
