"""What is done to the books at once: decisions that are committed, an observation, what a user asks.

The life cycle itself is in controlplane/lifecycle; this is the counterpart, in memory, of services/transitions.py.
"""

from collections.abc import Sequence
from typing import Any

from controlplane.cluster.port import PodPhase
from controlplane.invariants.state import Write
from controlplane.lifecycle import requests
from controlplane.lifecycle.admission import admit
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.decisions import apply, tell
from controlplane.lifecycle.following import follow
from controlplane.lifecycle.stale import Known, Made, stale
from controlplane.lifecycle.state import Seat, State
from controlplane.simulator.book import Action, Book
from scheduler.decision import Place, Wait
from scheduler.workload import ENDED, Assignment, Phase


class Turn(Changes):
    """Changes of one book's workloads; `write` takes them into it."""

    def __init__(self, book: Book, actor: str) -> None:
        super().__init__(book.at, actor)
        self.book = book
        self.rows = book.states
        self.awaited: dict[str, tuple[str, ...]] = {}  # for whose places a decision asked others to leave

    def live(self, row: State) -> list[Seat]:
        """The places of a workload that it still holds or has reserved."""
        return [seat for seat in self.book.records[row.id].seats if seat.is_live]

    def unfinished(self, row: State, ends: Sequence[Seat]) -> bool:
        """Whether a worker of this attempt, beside those that end now, ended otherwise than in success before."""
        now = {seat.rank for seat in ends}
        return any(
            seat.pod_phase != PodPhase.SUCCEEDED
            for seat in self.book.records[row.id].seats
            if seat.rank >= row.companions and seat.rank not in now
        )

    def move(self, row: State, to: Phase, **told: Any) -> None:
        """Take one step of the life cycle, with its record."""
        before = row.phase
        super().move(row, to, **told)
        self.book.step(row, before, self.actor)
        if to in ENDED:
            self.book.excuse(row.id)

    def bind(self, seat: Seat) -> None:
        """A reserved place is free now: it is held from here on."""
        super().bind(seat)
        self.book.hold(seat)

    def leave(self, row: State, leavers: Sequence[Seat], grace: float | None = None) -> None:
        """End these workers' pods."""
        super().leave(row, leavers, grace)
        self.book.excuse(row.id)

    def release(self, row: State, seat: Seat, at: float | None = None, pod_phase: str = "") -> None:
        """A place is free again."""
        super().release(row, seat, at, pod_phase)
        if seat.bound_at is None:
            self.book.excuse(row.id)
        else:
            self.book.release(seat)

    def write(self) -> None:
        """Take everything into the book."""
        self._follow()
        self._new_places()
        for one in self.commands:
            ranks, grace = tuple(one.payload["ranks"]), one.payload.get("grace", 0.0)
            self.book.outbox.append(Action(one.verb, one.workload, one.attempt, ranks, grace))
            if one.verb == "stop" and one.workload in self.book.records:
                self.book.records[one.workload].stops[one.attempt] = float("inf")  # until it is performed
        for row in self.touched.values():
            row.seen = row.version
            self.book.take(row)
        self.notes, self.commands, self.places, self.touched = [], [], [], {}

    def _new_places(self) -> None:
        promised: dict[str, list[Assignment]] = {}
        for one in self.places:
            record = self.book.records[one.of.id]
            if record.seats and record.seats[0].attempt != one.attempt:
                record.seats, record.gpus, record.performed = [], {}, {}
            seat = Seat(0, one.of.id, one.attempt, one.rank, one.node, one.milli, one.state, "", one.bound_at)
            record.seats.append(seat)
            record.gpus[one.rank] = tuple(one.gpus)
            if seat.bound_at is None:
                place = Assignment(one.rank, one.node, tuple(one.gpus), reserved=True)
                promised.setdefault(one.of.id, []).append(place)
            else:
                self.book.hold(seat)
        for uid, workers in promised.items():
            self.book.promise(self.rows[uid], workers, self.awaited.get(uid, ()))

    def _follow(self) -> None:
        while self.steps:
            steps, self.steps = self.steps, []
            for row, phase in steps:
                team = self.book.records[row.id].team
                for uid in sorted(self.book.gated & self.rows.keys()):
                    record = self.book.records[uid]
                    if record.team == team:
                        follow(self, self.rows[uid], row, phase, record.after.get(row.name, ""))


# --- decisions --------------------------------------------------------------------------------


def commit(book: Book, decisions: Sequence[Made], epoch: int, loop: str = "schedule") -> tuple[int, ...]:
    """Apply the decisions that still hold; the positions of the stale ones. Nothing at all under an old epoch."""
    if epoch != book.epoch:
        return tuple(range(len(decisions)))
    turn = Turn(book, f"loop:{loop}")
    found = stale(decisions, Known(turn.rows, turn.rows, book.snapshot.inventory.index))
    for i, decision in enumerate(decisions):
        if i in found:
            continue
        row = turn.rows[decision.workload]
        if isinstance(decision, Wait):
            tell(turn, row, decision)
            row.reason, row.message, row.reason_at = str(decision.reason), decision.message, book.at
        else:
            apply(turn, row, decision)
            if isinstance(decision, Place):
                turn.awaited[row.id] = decision.after
    turn.write()
    admit_all(book, turn.actor)  # those it waits for may have left since the round looked
    book.writes.append(Write(loop, epoch, book.epoch))
    return tuple(sorted(found))


def admit_all(book: Book, actor: str) -> None:
    """Start what waited for others to leave, once they have; give up places that are out of use."""
    turn = Turn(book, actor)
    states = [turn.rows[uid] for uid in sorted(turn.rows)]
    promised = [row for row in states if any(seat.bound_at is None for seat in turn.live(row))]
    for row in promised:
        admit(turn, row, book.leaving, lambda seat: _is_lost(book, seat))
    turn.write()


def _is_lost(book: Book, seat: Seat) -> bool:
    inventory = book.snapshot.inventory
    at = inventory.index.get(seat.node)
    if at is None:
        return True
    node = inventory.nodes[at]
    return not node.is_usable or bool(set(book.records[seat.workload].gpus[seat.rank]) & set(node.lost))


# --- users ------------------------------------------------------------------------------------


def stop(book: Book, uid: str, actor: str) -> None:
    """End a workload; nothing if it has ended."""
    _ask(book, uid, actor, requests.stop)


def suspend(book: Book, uid: str, actor: str) -> None:
    """Give a workload's places back until it is resumed."""
    _ask(book, uid, actor, requests.suspend)


def resume(book: Book, uid: str, actor: str) -> None:
    """Queue a held or suspended workload again."""
    _ask(book, uid, actor, requests.resume)


def _ask(book: Book, uid: str, actor: str, request: Any) -> None:
    row = book.states.get(uid)
    if row is not None:
        turn = Turn(book, actor)
        request(turn, row)
        turn.write()
