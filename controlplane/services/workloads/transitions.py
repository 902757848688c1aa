"""The only code that writes a workload's steps to the database.

A Batch is Changes (controlplane/lifecycle) about rows that it has locked. It writes everything in a few statements:
each row under the version it was locked with, one event for each step, one Change row for each workload, placements,
and the outbox. Everything happens in the caller's transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn
from uuid import UUID

from controlplane.cluster.port import PodPhase
from controlplane.lifecycle.changes import Changes, Command, Note, Place
from controlplane.lifecycle.following import follow
from controlplane.lifecycle.state import RELEASED, Seat, State
from controlplane.models import Action, Placement, Workload, bulk
from controlplane.models.lookups import for_update
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes, clock
from controlplane.services.workloads import dependencies
from controlplane.services.workloads.rows import Row, keep, lock, seats

_ACTION = ("verb", "workload", "attempt", "payload", "created_at", "tries", "not_before", "error")
_PLACEMENT = (
    "workload_id", "attempt", "rank", "node", "pool", "gpus", "milli", "state", "pod_phase", "bound_at", "is_settled",
    "revision", "asleep_at", "lender",
)  # fmt: skip
_SEAT_CHANGES = ("state", "pod_phase", "bound_at", "released_at", "is_settled", "asleep_at", "weights", "weights_at")


class LostUpdateError(Exception):
    """A locked row changed under us: the transaction is rolled back and the next round decides again."""


class Batch(Changes):
    """Rows locked in one transaction, and all that will be written about them. `at` is the cluster's clock."""

    rows: dict[str, Row]

    def __init__(self, at: float, actor: str, cycle: int | None = None) -> None:
        super().__init__(at, actor)
        self.rows = {}
        self.cycle = cycle
        self.pools: Mapping[str, str] = {}  # of the nodes of new places, by name
        self._told: dict[str, Row] = {}  # what others' steps did to these is news for the scheduler, too

    def lock(self, uids: Iterable[UUID], *, ahead: Callable[[], Iterable[UUID]] = tuple) -> None:
        """Read and lock these workloads, with their live placements.

        ahead tells which may have to be locked later in this transaction. All transactions lock in one order, so that
        no two wait for each other; what is locked after the first time has to be among those. (SQLite has one writer.)
        """
        wanted = {uid: str(uid) for uid in uids if str(uid) not in self.rows}
        if for_update() and (more := {*ahead()} - wanted.keys()):
            keep({*wanted, *more})
        found = lock(wanted)
        self.rows.update(found)
        if found:
            self.seats.update(seats(uid for uid, name in wanted.items() if name in found))

    def unfinished(self, row: State, ends: Sequence[Seat]) -> bool:
        """Whether a worker of this attempt, beside those that end now, ended otherwise than in success before."""
        # Role members are stopped when the workers are done, so how they end does not matter.
        mine = Placement.objects.filter(workload=self.rows[row.id].uid, attempt=row.attempt, rank__gte=row.role_members)
        others = mine.exclude(pk__among=[seat.pk for seat in ends])
        return others.exclude(pod_phase=PodPhase.SUCCEEDED.value).exists()

    # --- writing ------------------------------------------------------------------------------

    def write(self, *, touch: bool = True) -> None:
        """Write everything. Raises LostUpdateError if a row was changed by a writer that did not lock it.

        Without `touch` the scheduler's snapshot is not told: the round that decided this knows it.
        """
        self._follow()
        self._write_rows()
        self._write_seats()
        bulk.insert(Placement, _PLACEMENT, [self._placement(one) for one in self.places])
        bulk.insert(Action, _ACTION, [self._action(command) for command in self.commands])
        events.write([self._event(note) for note in self.notes])
        touched = self.touched if touch else self._told
        if touched:
            changes.touch_these((one.uid, one.cell) for one in touched.values())
            wake("schedule")
        if self.commands:
            wake("actuate")
        self._clear()

    def _placement(self, one: Place) -> tuple[Any, ...]:
        columns = (one.state, "", one.bound_at, False, one.revision, one.asleep_at, one.lender)
        return (one.of.uid, one.attempt, one.rank, one.node, self.pools[one.node], list(one.gpus), one.milli, *columns)

    def _action(self, one: Command) -> tuple[Any, ...]:
        row = self.rows.get(one.workload)
        uid = UUID(one.workload) if row is None else row.uid
        return (one.verb, uid, one.attempt, one.payload, self.at, 0, 0.0, "")

    def _event(self, note: Note) -> events.Entry:
        of = note.of
        told = (of.uid, of.name, note.phase.value, note.reason, note.message, self.cycle, note.data)
        return events.Entry(self.at, self.actor, note.kind, of.team, *told)

    def _follow(self) -> None:
        """What runs or has ended now was waited for: that wait is over, or can never be, which ends what waits."""
        while self.steps:
            steps, self.steps = self.steps, []
            waiting: dict[str, list[dependencies.Link]] = {}
            for link in dependencies.links(dict.fromkeys(self.rows[row.id].uid for row, _ in steps)):
                waiting.setdefault(str(link.needs), []).append(link)
            self.lock([link.workload for found in waiting.values() for link in found])
            for row, phase in steps:
                for link in waiting.get(row.id, ()):
                    dependent = self.rows[str(link.workload)]
                    if follow(self, dependent, row, phase, link.when):
                        self._told[dependent.id] = dependent

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
            (
                s.state,
                s.pod_phase,
                s.bound_at,
                s.released_at,
                s.state == RELEASED and s.bound_at is None,
                s.asleep_at,
                s.weights,
                s.weights_at,
                s.pk,
            )  # fmt: skip
            for s in moved
        ]
        bulk.update(Placement, _SEAT_CHANGES, ("id",), rows, in_order=True)
        for seat in moved:
            seat.is_changed = False

    def _clear(self) -> None:
        self.notes, self.commands, self.places = [], [], []
        self.touched, self._told = {}, {}


def locked(workload: Workload, actor: str, version: int | None) -> tuple[Batch, Row]:
    """The workload's row, locked with what it may come to, and the batch that will write it.

    Refused 412 if it is not of the version that the caller saw (None: any).
    """
    batch = Batch(clock.now(), actor)
    batch.lock([workload.pk], ahead=lambda: dependencies.dependents([workload.pk]))
    row = batch.rows[str(workload.pk)]
    if version is not None and version != row.version:
        message = f"{row.name} has changed: its version is {row.version}, not {version}. Read it again."
        raise Refused(412, "VersionMismatch", "version", message)
    return batch, row


def refuse(row: Row, participle: str) -> NoReturn:
    """Say that the phase does not allow it."""
    raise Refused(409, "WrongPhase", "phase", f"{row.name} is {row.phase}; it cannot be {participle}.")
