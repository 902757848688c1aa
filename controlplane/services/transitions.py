"""The only code that changes a workload's phase.

A Batch locks rows, changes them in memory and writes everything in a few statements: each row under the version it was
locked with, one event for each transition, one Change row for each workload, placements, and the outbox. Everything
happens in the caller's transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from controlplane.models import Action, Placement, Workload, bulk
from controlplane.services import changes, dependencies, events
from controlplane.services.rows import (
    BOUND,
    LEAVING,
    RELEASED,
    RESERVED,
    Row,
    Seat,
    Told,
    keep,
    lock,
    seats,
    seconds_held,
)
from controlplane.wake import wake
from scheduler.dependency import DEPENDENCY_FAILED, never, verdict
from scheduler.workload import ENDED, Phase, may_move

_ACTION = ("verb", "workload", "attempt", "payload", "created_at", "tries", "not_before", "error")
_PLACEMENT = (
    "workload_id", "attempt", "rank", "node", "pool", "gpus", "milli", "state", "pod_phase", "bound_at", "is_settled",
)  # fmt: skip
_SEAT_CHANGES = ("state", "pod_phase", "bound_at", "released_at", "is_settled")


class IllegalMoveError(Exception):
    """A step that the life cycle does not have: a bug, never a user's fault."""


class LostUpdateError(Exception):
    """A locked row changed under us: the transaction is rolled back and the next round decides again."""


class Batch:
    """Rows locked in one transaction, and all that will be written about them. `at` is the cluster's clock."""

    def __init__(self, at: float, actor: str, cycle: int | None = None) -> None:
        self.at = at
        self.actor = actor
        self.cycle = cycle
        self.rows: dict[str, Row] = {}
        self.seats: dict[str, list[Seat]] = {}
        self.moves = 0
        self._notes: list[events.Entry] = []
        self._actions: list[tuple[Any, ...]] = []
        self._placements: list[tuple[Any, ...]] = []
        self._steps: list[tuple[Row, Phase]] = []
        self._touched: dict[UUID, None] = {}
        self._told: dict[UUID, None] = {}

    def lock(self, uids: Iterable[UUID], *, ahead: Callable[[], Iterable[UUID]] = tuple) -> None:
        """Read and lock these workloads, with their live placements.

        ahead tells which may have to be locked later in this transaction. All transactions lock in one order, so that
        no two wait for each other; what is locked after the first time has to be among those. (SQLite has one writer.)
        """
        wanted = {uid: str(uid) for uid in uids if str(uid) not in self.rows}
        if bulk.for_update() and (more := {*ahead()} - wanted.keys()):
            keep({*wanted, *more})
        found = lock(wanted)
        self.rows.update(found)
        if found:
            self.seats.update(seats(uid for uid, name in wanted.items() if name in found))

    def live(self, row: Row) -> list[Seat]:
        """The placements of a workload that still hold or reserve their place."""
        return [seat for seat in self.seats.get(row.id, ()) if seat.is_live]

    # --- workloads ----------------------------------------------------------------------------

    def move(
        self, row: Row, to: Phase, *, kind: str = "", reason: str = "", message: str = "", data: Mapping[str, Any] = {}
    ) -> None:
        """Take one step of the life cycle, with its event (of the phase's name unless `kind` is given)."""
        if not may_move(row.phase, to):
            raise IllegalMoveError(f"{row.id}: {row.phase} -> {to}")
        row.phase = to
        row.version += 1
        row.changed |= {"phase", "version"}
        if to in ENDED:
            self.change(row, reason=reason, message=message, intent="", reserved_after=[])
        if to in ENDED or to == Phase.RUNNING:
            self._steps.append((row, to))
        self.moves += 1
        self.note(row, kind or to.value, reason=reason, message=message, data=data)

    def followed(self, row: Row) -> None:
        """Have those that start after a workload follow it, as if it had just come to its phase."""
        self._steps.append((row, row.phase))

    def change(self, row: Row, **columns: Any) -> None:
        """Set columns without a step of the life cycle; the version stays unless it is among them."""
        for name, value in columns.items():
            setattr(row, name, value)
        row.changed |= columns.keys()
        self._touched[row.uid] = None

    def bump(self, row: Row, **columns: Any) -> None:
        """Set columns that a decision may have relied on: the version grows, so that older decisions are stale."""
        self.change(row, version=row.version + 1, **columns)

    def touch(self, uid: UUID) -> None:
        """Have the scheduler's snapshot read this workload again."""
        self._touched[uid] = None

    def note(
        self, row: Row | Told, kind: str, *, reason: str = "", message: str = "", data: Mapping[str, Any] = {}
    ) -> None:
        """Add an event about a workload."""
        self._touched[row.uid] = None
        told = (row.uid, row.name, row.phase.value, reason, message, self.cycle, data)
        self._notes.append(events.Entry(self.at, self.actor, kind, row.team, *told))

    # --- placements ---------------------------------------------------------------------------

    def place(self, row: Row, workers: Sequence[tuple[int, str, str, Sequence[int], int]], *, reserve: bool) -> None:
        """Give a workload's attempt new seats: (rank, node, pool, gpus, milli) each."""
        state, bound_at = (RESERVED, None) if reserve else (BOUND, self.at)
        self._placements += [
            (row.uid, row.attempt, rank, node, pool, list(gpus), milli, state, "", bound_at, False)
            for rank, node, pool, gpus, milli in workers
        ]
        self._touched[row.uid] = None

    def bind(self, seat: Seat) -> None:
        """A reserved place is free now: it is held from here on."""
        seat.state, seat.bound_at, seat.is_changed = BOUND, self.at, True

    def leave(self, row: Row, leavers: Sequence[Seat], grace: float | None = None) -> None:
        """End these workers' pods; they hold their places until the pods are gone."""
        for seat in leavers:
            seat.state, seat.is_changed = LEAVING, True
        if leavers:
            self.act("stop", row, [seat.rank for seat in leavers], grace=row.grace_seconds if grace is None else grace)

    def release(self, row: Row, seat: Seat, at: float | None = None, pod_phase: str = "") -> None:
        """A place is free again; what was held until `at` is added to what the workload attained."""
        seat.state, seat.is_changed = RELEASED, True
        seat.pod_phase = pod_phase or seat.pod_phase
        seat.released_at = self.at if at is None else min(max(at, seat.bound_at or at), self.at)
        if held := seat.milli * seconds_held(seat):
            self.change(row, attained=row.attained + held)
        self._touched[row.uid] = None

    # --- outbox -------------------------------------------------------------------------------

    def act(self, verb: str, row: Row, ranks: Sequence[int], **payload: Any) -> None:
        """Have the cluster do something once this is committed."""
        self.command(verb, row.uid, row.attempt, {"ranks": list(ranks), **payload})

    def command(self, verb: str, workload: UUID | None, attempt: int, payload: Mapping[str, Any]) -> None:
        """The same for what need not be a workload of ours."""
        self._actions.append((verb, workload, attempt, payload, self.at, 0, 0.0, ""))

    # --- writing ------------------------------------------------------------------------------

    def write(self, *, touch: bool = True) -> None:
        """Write everything. Raises LostUpdateError if a row was changed by somebody who did not lock it.

        Without `touch` the scheduler's snapshot is not told: the round that decided this knows it.
        """
        self._follow()
        self._write_rows()
        self._write_seats()
        bulk.insert(Placement, _PLACEMENT, self._placements)
        bulk.insert(Action, _ACTION, self._actions)
        events.write(self._notes)
        touched = self._touched if touch else self._told
        if touched:
            changes.touch(touched)
            wake("schedule")
        if self._actions:
            wake("actuate")
        self._clear()

    def _follow(self) -> None:
        """What runs or has ended now was waited for: that wait is over, or can never be, which ends who waits."""
        while self._steps:
            steps, self._steps = self._steps, []
            waiting: dict[UUID, list[dependencies.Link]] = {}
            for link in dependencies.links(dict.fromkeys(row.uid for row, _ in steps)):
                waiting.setdefault(link.needs, []).append(link)
            self.lock([link.workload for found in waiting.values() for link in found])
            for row, phase in steps:
                for link in waiting.get(row.uid, ()):
                    self._follow_one(self.rows[str(link.workload)], row, phase, link.when)

    def _follow_one(self, dependent: Row, row: Row, phase: Phase, when: str) -> None:
        if row.name not in dependent.unmet or dependent.phase in ENDED:
            return
        is_met = verdict(when, row.kind, phase)
        if is_met:
            self.change(dependent, unmet=[name for name in dependent.unmet if name != row.name])
        elif is_met is False and dependencies.is_waiting(dependent.phase):
            self.change(dependent, ended_at=self.at)
            message = never(row.name, when, row.kind, phase)
            self.move(dependent, Phase.STOPPED, reason=DEPENDENCY_FAILED, message=message, data={"needs": str(row.uid)})
        else:
            return
        self._told[dependent.uid] = None

    def _write_rows(self) -> None:
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows.values():
            if row.changed:
                groups.setdefault(tuple(sorted(row.changed)), []).append(row)
        for names, rows in groups.items():
            values = [(*(getattr(row, name) for name in names), row.uid, row.seen) for row in rows]
            if bulk.update(Workload, names, ("uid", "version"), values) != len(rows):
                raise LostUpdateError(", ".join(row.id for row in rows))
            for row in rows:
                row.seen = row.version
                row.changed.clear()

    def _write_seats(self) -> None:
        moved = [seat for found in self.seats.values() for seat in found if seat.is_changed]
        rows = [
            # What never was bound has nothing to account for.
            (s.state, s.pod_phase, s.bound_at, s.released_at, s.state == RELEASED and s.bound_at is None, s.pk)
            for s in moved
        ]
        bulk.update(Placement, _SEAT_CHANGES, ("id",), rows, in_order=True)
        for seat in moved:
            seat.is_changed = False

    def _clear(self) -> None:
        self._notes, self._actions, self._placements = [], [], []
        self._touched, self._told = {}, {}
